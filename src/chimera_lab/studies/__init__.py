"""Comparisons: rows of a table, each tuned and trained in the same way, at equal size.

A study file offers ``STUDIES``, a `Study` for each name. A row is a recipe with some settings changed; the engine
matches its parameters, sweeps the learning rate on validation data, trains with several seeds and evaluates on test
data, once. The paper's tables are sections of studies.
"""

from __future__ import annotations

from importlib import import_module

from chimera_lab.recipes import Scale
from chimera_lab.studies.study import Study
from chimera_lab.training.settings import unknown

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


def find_studies(name: str, scale: Scale | None = None) -> dict[str, Study]:
    """The studies of a table of the paper, of the laptop's scale unless another is asked for; or a study by name."""
    from chimera_lab.studies.tables import TABLES

    if name in TABLES:
        table = TABLES[name]
        return {study: find_study(study).part(table.section) for study in table.studies[scale or "laptop"]}
    names = list(dict.fromkeys([*TABLES, *all_studies()]))
    if name not in names:
        raise ValueError(unknown(f"table or study {name!r}", name, names))
    if scale is not None:
        raise ValueError(f"{name} is a study of one scale; leave --scale out, or name a table: {', '.join(TABLES)}")
    return {name: find_study(name)}
