"""What the README promises is there; its code is run by test_docs.py."""

import re
from pathlib import Path

import chimera_ssm

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def names(text):
    """What a reader would look up in the package: classes and functions in code, and attributes of `chimera`."""
    code = re.findall(r"`([^`\n]+)`", text)
    attributes = {name for span in [*code, text] for name in re.findall(r"\bchimera\.([A-Za-z_]\w*)", span)}
    alone = {span for span in code if re.fullmatch(r"[A-Z][a-zA-Z]*[a-z]\w*|[A-Z]{3,}", span)}
    return attributes | alone | {name for span in code for name in re.findall(r"\b([A-Z]\w*[a-z]\w*)\(", span)}


def test_names_in_the_readme_exist():
    found = names(README)
    assert {"Line", "OnGrid", "SparseLU", "Chimera", "Graph", "DAG", "select_solver"} <= found
    assert found <= set(chimera_ssm.__all__)
    assert {"mask", "solve", "mix", "batch", "create_model"} <= set(chimera_ssm.__all__) & set(
        re.findall(r"`(\w+)", README)
    )


def test_a_name_that_does_not_exist_is_noticed():
    assert names("`Lines`, `chimera.Lines(3)` or `OnLines(3)`, `nn.Linear`") == {"Lines", "OnLines"}


def test_make_has_the_targets_that_are_named():
    makefile = (ROOT / "Makefile").read_text()
    targets = {*re.findall(r"^    make (\w+)", README, re.MULTILINE), *re.findall(r"`make (\w+)`", README)}
    assert {"demo", "test", "docs"} <= targets
    for target in targets:
        assert f"\n{target}: " in makefile
