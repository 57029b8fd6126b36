"""The README's code runs, and its files exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_code_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
    assert "Elimination" in capsys.readouterr().out


def test_the_page_on_compiling_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "compile.md").read_text(), re.DOTALL)
    exec(compile(code, "compile.md", "exec"), {})
    assert (tmp_path / "model.pt2").exists()


def test_the_page_on_solvers_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "solvers.md").read_text(), re.DOTALL)
    exec(compile(code, "solvers.md", "exec"), {})
    assert "state form" in capsys.readouterr().out


def test_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_names_in_the_readme_exist():
    import chimera_ssm

    names = set(re.findall(r"`([A-Za-z_]\w+)", README)) & (set(chimera_ssm.__all__) | {"Line", "mix"})
    assert {"Line", "mix", "OnGrid", "Elimination"} <= names


def test_the_example_draws(tmp_path):
    import runpy

    runpy.run_path(str(ROOT / "examples" / "influence.py"))["main"](tmp_path)
    assert (tmp_path / "influence.png").stat().st_size > 10_000
