"""What the README promises is there; its code is run by test_docs.py."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_names_in_the_readme_exist():
    import chimera_ssm

    names = set(re.findall(r"`([A-Za-z_]\w+)", README)) & (set(chimera_ssm.__all__) | {"Line", "mix"})
    assert {"Line", "mix", "OnGrid", "SparseLU"} <= names


def test_make_has_the_targets_that_are_named():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", README, re.MULTILINE):
        assert f"\n{target}: " in makefile
