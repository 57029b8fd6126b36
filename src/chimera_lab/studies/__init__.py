"""Comparisons: rows of a table, all tuned and trained in the same way, at equal size.

Each module defines ``STUDIES``, which maps names to a `Study`. A row is a recipe with some settings changed;
`run_study` matches its number of parameters, sweeps the learning rate on validation data, trains with several seeds and
evaluates once on test data. The paper's tables are sections of studies.
"""

from __future__ import annotations

from chimera_lab.recipes import Scale
from chimera_lab.studies import graph, image, text
from chimera_lab.studies.study import Study
from chimera_lab.studies.tables import TABLES
from chimera_ssm.errors import unknown_name

_MODULES = (image, text, graph)


def all_studies() -> dict[str, Study]:
    """Every study, by name."""
    return {name: study for module in _MODULES for name, study in module.STUDIES.items()}


def find_study(name: str) -> Study:
    """A study by name."""
    studies = all_studies()
    if name not in studies:
        raise ValueError(unknown_name("study", name, studies))
    return studies[name]


def find_studies(name: str, scale: Scale | None = None) -> dict[str, Study]:
    """The studies of a table of the paper, of the laptop's scale unless another is asked for; or a study by name."""
    if name in TABLES:
        table = TABLES[name]
        return {study: find_study(study).part(table.section) for study in table.studies[scale or "laptop"]}
    names = list(dict.fromkeys([*TABLES, *all_studies()]))
    if name not in names:
        raise ValueError(unknown_name("table or study", name, names))
    if scale is not None:
        raise ValueError(f"{name} is a study of one scale; leave --scale out, or name a table: {', '.join(TABLES)}")
    return {name: find_study(name)}
