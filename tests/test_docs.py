"""Every snippet of the README and of docs/ is run or read: a page is a program, run from top to bottom.

- ```python blocks of a page run in order, in one namespace and one empty folder.
- ```console blocks run between them: lines that begin with "$ chimera" are commands.
- ```bash blocks hold commands that take long: the program must understand them.
"""

import re
import runpy
import shlex
from pathlib import Path

import pytest

import chimera_ssm
from chimera_lab import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Language, text and line of each block that has a language."""
    text = page.read_text()
    return [(m[1], m[2], text[: m.start()].count("\n") + 2) for m in BLOCK.finditer(text)]


def commands(text):
    """Command lines of a block, as lists of words; lines that end in a backslash go on."""
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [w for w in words if w[:1] == ["chimera"]]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if {"python", "console"} & {b[0] for b in blocks(p)}], ids=name)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for language, text, line in blocks(page):
        if language == "python":
            exec(compile("\n" * (line - 1) + text, name(page), "exec"), namespace)
        elif language == "console":
            for words in commands(text):
                assert cli.main(words[1:]) == 0, words


LONG = [(p, words) for p in PAGES for language, text, _ in blocks(p) if language == "bash" for words in commands(text)]


@pytest.mark.parametrize(("page", "words"), LONG, ids=lambda x: name(x) if isinstance(x, Path) else shlex.join(x[1:]))
def test_long_commands_are_understood(page, words):
    assert cli._parser().parse_args(words[1:]).command == words[1]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_language_is_known_and_links_lead_somewhere(page):
    assert {language for language, _, _ in blocks(page)} <= {"python", "console", "bash"}
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    for link in links:
        assert "://" in link or (page.parent / link).exists(), link


def test_the_site_has_every_page():
    yaml = pytest.importorskip("yaml")
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = re.findall(r"[\w/]+\.md", str(nav))
    pages = {str(p.relative_to(ROOT / "docs")) for p in PAGES[1:]}
    assert len(named) == len(set(named))
    assert set(named) == {page for page in pages if not page.startswith("results/")}


def test_the_api_has_every_public_name():
    shown = re.findall(r"^::: \S+?(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    kinds = {name for name in chimera_ssm.__all__ if name == "Kind" or name.startswith("On")}  # a module of its own
    assert {*chimera_ssm.__all__} - kinds - {"__version__"} <= {*shown}


def test_the_site_is_built_without_a_warning(tmp_path):
    build = pytest.importorskip("mkdocs.commands.build")
    pytest.importorskip("mkdocstrings")
    from mkdocs.config import load_config

    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    assert "Ten minutes" in (tmp_path / "tutorial.html").read_text()
    found = re.findall(r'href="([^"#]+)', (tmp_path / "index.html").read_text())
    links = {link for link in found if "://" not in link}
    assert "when.html" in links
    for link in links:  # the site also works when it is opened from the file system
        assert (tmp_path / link).is_file(), link


def test_contributions_of_the_resolvent_are_those_of_the_records(capsys):
    runpy.run_path(str(ROOT / "benchmarks" / "contributions.py"), run_name="__main__")
    table = capsys.readouterr().out
    assert table.count("\n") > 2
    assert table in (ROOT / "docs" / "when.md").read_text()
