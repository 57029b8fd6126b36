"""A comparison: sections of rows, all tuned, trained and evaluated in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise, product
from math import nan
from pathlib import Path
from typing import Any

from chimera_lab.training.kinds import count_parameters, match_parameters
from chimera_lab.training.recipe import Recipe


@dataclass(frozen=True)
class Row:
    """A model of a comparison.

    Attributes:
        name: its name in the table.
        changes: settings that differ from the study's recipe; ``None`` for a row that is not trained, with the paper's
            values only.
        paper: the paper's values by metric, as fractions.
    """

    name: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> frozenset[Any] | None:
        """Equal for rows with equal settings."""
        return None if self.changes is None else frozenset(self.changes.items())


@dataclass(frozen=True)
class Section:
    """A table.

    Attributes:
        title: its heading.
        rows: the others are compared with the first, which is trained.
        expected: names of rows in the paper's order, the best first; tuples of rows whose order is not expected.
        evaluations: further evaluations of the trained models, settings by column.
        note: a remark on the rows.
    """

    title: str
    rows: tuple[Row, ...]
    expected: tuple[str | tuple[str, ...], ...] = ()
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of a row and one that is expected directly after it."""
        groups = [(name,) if isinstance(name, str) else name for name in self.expected]
        return [pair for before, after in pairwise(groups) for pair in product(before, after)]


@dataclass(frozen=True)
class Study:
    """A comparison.

    Attributes:
        doc: one line on what is compared.
        recipe_name: name of the recipe that the rows change.
        recipe: the recipe, with the budget of the study.
        sections: tables; a row with the same changes in two of them is trained once.
        metric: the metric on test data by which learning rates are chosen and rows compared. Metrics of averaged
            weights end in ``_ema``.
        learning_rates: the sweep of each row, on validation data, with the first seed.
        validation: fraction of the training data held out for the sweep.
        sweep: settings changed for the sweep, such as a smaller budget.
        seeds: number of seeds.
        larger_is_better: whether larger values of the metric are better.
        also: further metrics to report.
        majority: whether to compare with predicting the most frequent class.
        test: settings of the evaluation on test data, if the recipe chooses weights by the validation part of the data
            (``export="best"``); if empty, training ends with that evaluation.
        then: further studies by folder name that start from the runs of this one: ``from_`` of their rows is a row of
            this study, and each seed starts from the run of the same seed.
        figures: plots by name, made by functions of `chimera_lab.studies.figures`.
        matched: whether widths are changed so that all rows have the parameters of the first, within 3 %.
        only: titles of the sections to run; all if empty.
    """

    doc: str
    recipe_name: str
    recipe: Recipe
    sections: tuple[Section, ...]
    metric: str
    learning_rates: tuple[float, ...]
    validation: float = 0.1
    sweep: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 3
    larger_is_better: bool = True
    also: tuple[str, ...] = ()
    majority: bool = False
    test: Mapping[str, Any] = field(default_factory=dict)
    then: Mapping[str, Study] = field(default_factory=dict)
    figures: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    matched: bool = True
    only: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[Section, ...]:
        """The sections to run."""
        return tuple(section for section in self.sections if not self.only or section.title in self.only)

    @property
    def rows(self) -> list[Row]:
        """Distinct rows to train, in order; their names do not depend on the selected sections."""
        wanted = {row.key for section in self.shown for row in section.rows}
        return [row for row in self._all_rows() if row.key in wanted]

    def _all_rows(self) -> list[Row]:
        rows: dict[Any, Row] = {}
        for section in self.sections:
            for row in section.rows:
                rows.setdefault(row.key, row)
        return [row for row in rows.values() if row.changes is not None]

    def same(self, row: Row) -> Row | None:
        """The trained row with the same settings, if there is one."""
        return next((r for r in self._all_rows() if r.key == row.key), None)

    def recipes(self) -> dict[str, Recipe]:
        """The recipe of each distinct row, by name."""
        first, *_ = self._all_rows()
        target = count_parameters(self._recipe(first)) if self.matched else 0
        recipes = {row.name: self._recipe(row) for row in self.rows}
        if not self.matched:
            return recipes
        return {name: r if name == first.name else match_parameters(r, target) for name, r in recipes.items()}

    def _recipe(self, row: Row) -> Recipe:
        return replace(self.recipe, **(row.changes or {}))

    def part(self, *titles: str) -> Study:
        """The study reduced to some sections, with those further studies that need no other rows."""
        part = replace(self, only=titles)
        names = {row.name for row in part.rows}
        then = {
            name: study
            for name, study in self.then.items()
            if all((row.changes or {})["from_"] in names for row in study.rows)
        }
        return replace(part, then=then)

    @property
    def metrics(self) -> tuple[str, ...]:
        """All reported metrics, the decisive one first."""
        return (self.metric, *self.also)

    def figure(self, metrics: Mapping[str, float]) -> float:
        """The value of the decisive metric in a result; NaN if it is missing, as after a divergence."""
        return metrics.get(self.metric, nan)

    def on(self, folder: str) -> Study:
        """The study with the data in a folder, or in its subfolder with the name of the data."""
        inner = Path(folder) / self.recipe.data
        data = str(inner) if inner.is_dir() else folder
        then = {name: study.on(folder) for name, study in self.then.items()}
        return replace(self, recipe=replace(self.recipe, data=data), then=then)


def differences(recipe: Recipe, other: Recipe) -> dict[str, Any]:
    """The settings in which ``other`` differs from ``recipe``."""
    return {f.name: getattr(other, f.name) for f in fields(other) if getattr(other, f.name) != getattr(recipe, f.name)}


def run_folder(folder: Path, row: str, run: str) -> Path:
    """The folder of a run of a row."""
    return folder / re.sub(r"[^\w.-]+", "-", row).strip("-").lower() / run
