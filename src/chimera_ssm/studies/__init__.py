"""Comparisons: rows of a table, each tuned and trained in the same way, at equal size.

A study file offers ``STUDIES``, a `Study` for each name. A row is a recipe with some settings changed; the engine
matches its parameters, sweeps the learning rate on validation data, trains with several seeds and evaluates on test
data, once.
"""

from __future__ import annotations

from importlib import import_module

from chimera_ssm.studies.study import Study
from chimera_ssm.training.settings import unknown

_FILES = ("image", "text", "graph")


def all_studies() -> dict[str, Study]:
    """Every study, by name."""
    return {name: study for file in _FILES for name, study in import_module(f"{__name__}.{file}").STUDIES.items()}


def find_study(name: str) -> Study:
    """A study by name."""
    studies = all_studies()
    if name not in studies:
        raise ValueError(unknown(f"study {name!r}", name, studies))
    return studies[name]
