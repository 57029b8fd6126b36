"""What a comparison is: sections of rows, and what is done alike for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any, Literal

from chimera_ssm.training.recipe import Recipe


@dataclass(frozen=True)
class Row:
    """A model of a comparison.

    Attributes:
        name: in the table.
        changes: settings of the recipe that make it.
        paper: the paper's figure, if it has one.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""


@dataclass(frozen=True)
class Section:
    """A table.

    Attributes:
        title: above it.
        rows: the first is the one that others are compared with.
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
        metric: on test data, of the weights averaged while training where the recipe averages them. By this one rates
            are chosen and rows compared.
        learning_rates: the same sweep for each row, on validation data, with the first seed.
        validation: part of the training data for it.
        sweep: settings changed for it, such as a smaller budget.
        seeds: how many.
        larger_is_better: whether a larger figure is.
        also: further metrics to report.
        standard: an order is claimed beyond two standard errors of the means, or two standard deviations of a seed.
        majority: whether to compare with guessing the most frequent class.
        then: further studies, by name of their folder, that start from this one's runs: in their rows ``from_`` is a
            row of this study, and each seed starts from the run of the same seed.
        figures: pictures by name, made by functions of `chimera_ssm.studies.figures`.
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
    then: Mapping[str, Study] = field(default_factory=dict)
    figures: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """Distinct rows, in order."""
        rows: dict[Any, Row] = {}
        for section in self.sections:
            for row in section.rows:
                rows.setdefault(frozenset(row.changes.items()), row)
        return list(rows.values())

    def same(self, row: Row) -> Row:
        """The row that is trained for this one."""
        return next(r for r in self.rows if dict(r.changes) == dict(row.changes))

    def recipes(self, matched: bool = True) -> dict[str, Recipe]:
        """The recipe of each distinct row, by name; ``matched``, with the parameters of the first."""
        recipes = {row.name: replace(self.recipe, **row.changes) for row in self.rows}
        if not matched:
            return recipes
        (first, recipe), *others = recipes.items()
        target = recipe.parameters()
        return {first: recipe} | {name: other.with_parameters(target) for name, other in others}

    @property
    def metrics(self) -> tuple[str, ...]:
        """All that is reported, the one that counts first."""
        return (self.metric, *self.also)

    def column(self, name: str | None = None) -> str:
        """What a metric, `metric` unless another is named, is called in a result."""
        return f"{name or self.metric}{'_ema' if self.recipe.ema else ''}"

    def figure(self, metrics: Mapping[str, float], name: str | None = None) -> float:
        """One of the metrics of a result."""
        return metrics[self.column(name)]

    def on(self, data: str) -> Study:
        """The same study on the data of another folder."""
        then = {name: study.on(data) for name, study in self.then.items()}
        return replace(self, recipe=replace(self.recipe, data=data), then=then)
