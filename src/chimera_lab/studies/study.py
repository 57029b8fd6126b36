"""What a comparison is: sections of rows, and what is done alike for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise, product
from math import nan
from pathlib import Path
from typing import Any, Literal

from chimera_lab.training.recipe import Recipe


@dataclass(frozen=True)
class Row:
    """A model of a comparison.

    Attributes:
        name: in the table.
        changes: settings of the recipe that make it; ``None`` for what is not trained here and known from the paper.
        paper: the paper's figures by metric, in units of one.
    """

    name: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> frozenset[Any] | None:
        """The same for rows that are trained alike."""
        return None if self.changes is None else frozenset(self.changes.items())


@dataclass(frozen=True)
class Section:
    """A table.

    Attributes:
        title: above it.
        rows: the first, which is trained, is the one that others are compared with.
        expected: names of rows, the best first, in the paper's order; several at once where it says nothing of theirs.
        evaluations: further evaluations of the trained models, settings by column.
        note: what a reader should know of the rows.
    """

    title: str
    rows: tuple[Row, ...]
    expected: tuple[str | tuple[str, ...], ...] = ()
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""

    def pairs(self) -> list[tuple[str, str]]:
        """Each row with each that should come next after it."""
        groups = [(name,) if isinstance(name, str) else name for name in self.expected]
        return [pair for before, after in pairwise(groups) for pair in product(before, after)]


@dataclass(frozen=True)
class Study:
    """A comparison.

    Attributes:
        doc: one line on what is compared.
        recipe_name: of the recipe that rows change.
        recipe: with the budget of the study.
        sections: tables; a row with the same changes in two of them is trained once.
        metric: on test data; those of weights averaged while training end in ``_ema``. By this one rates are chosen and
            rows compared.
        learning_rates: the same sweep for each row, on validation data, with the first seed.
        validation: part of the training data for it.
        sweep: settings changed for it, such as a smaller budget.
        seeds: how many.
        larger_is_better: whether a larger figure is.
        also: further metrics to report.
        standard: an order is claimed beyond two standard errors of the means, or two standard deviations of a seed.
        majority: whether to compare with guessing the most frequent class.
        test: settings of the evaluation that gives the figures on test data, where the recipe chooses weights by the
            data's own validation part (``export="best"``); if there are none, training ends with that evaluation.
        then: further studies, by name of their folder, that start from this one's runs: in their rows ``from_`` is a
            row of this study, and each seed starts from the run of the same seed.
        figures: pictures by name, made by functions of `chimera_lab.studies.figures`.
        matched: whether widths are changed so that all rows have the parameters of the first, within 3 %.
        only: titles of the sections to conduct; all if there are none.
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
    standard: Literal["errors", "deviations"] = "errors"
    majority: bool = False
    test: Mapping[str, Any] = field(default_factory=dict)
    then: Mapping[str, Study] = field(default_factory=dict)
    figures: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    matched: bool = True
    only: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[Section, ...]:
        """The sections to conduct."""
        return tuple(section for section in self.sections if not self.only or section.title in self.only)

    @property
    def rows(self) -> list[Row]:
        """Distinct rows to train, in order, under the same names whichever sections are conducted."""
        wanted = {row.key for section in self.shown for row in section.rows}
        return [row for row in self._all_rows() if row.key in wanted]

    def _all_rows(self) -> list[Row]:
        rows: dict[Any, Row] = {}
        for section in self.sections:
            for row in section.rows:
                rows.setdefault(row.key, row)
        return [row for row in rows.values() if row.changes is not None]

    def same(self, row: Row) -> Row | None:
        """The row that is trained for this one, if any is."""
        return next((r for r in self._all_rows() if r.key == row.key), None)

    def recipes(self) -> dict[str, Recipe]:
        """The recipe of each distinct row, by name."""
        first, *_ = self._all_rows()
        target = self._recipe(first).parameters() if self.matched else 0
        recipes = {row.name: self._recipe(row) for row in self.rows}
        if not self.matched:
            return recipes
        return {name: r if name == first.name else r.with_parameters(target) for name, r in recipes.items()}

    def _recipe(self, row: Row) -> Recipe:
        return replace(self.recipe, **(row.changes or {}))

    def part(self, *titles: str) -> Study:
        """Some sections of the same study, and what comes then if it needs no row of the others."""
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
        """All that is reported, the one that counts first."""
        return (self.metric, *self.also)

    def figure(self, metrics: Mapping[str, float]) -> float:
        """The one that counts, of the metrics of a result; NaN if it is not there, as after a divergence."""
        return metrics.get(self.metric, nan)

    def on(self, folder: str) -> Study:
        """The same study on the data in a folder: in the folder of their name within it, or else in itself."""
        inner = Path(folder) / self.recipe.data
        data = str(inner) if inner.is_dir() else folder
        then = {name: study.on(folder) for name, study in self.then.items()}
        return replace(self, recipe=replace(self.recipe, data=data), then=then)


def differences(recipe: Recipe, other: Recipe) -> dict[str, Any]:
    """The changes that make ``other`` of ``recipe``."""
    return {f.name: getattr(other, f.name) for f in fields(other) if getattr(other, f.name) != getattr(recipe, f.name)}
