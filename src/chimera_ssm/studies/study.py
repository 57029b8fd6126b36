"""What a comparison is: sections of rows, and what is done alike for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
        expected: names of rows, the best first, in the paper's order.
        evaluations: further evaluations of the trained models, settings by column.
    """

    title: str
    rows: tuple[Row, ...]
    expected: tuple[str, ...] = ()
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A comparison.

    Attributes:
        doc: one line on what is compared.
        recipe_name: of the recipe that rows change.
        recipe: with the budget of the study.
        sections: tables; a row with the same changes in two of them is trained once.
        metric: on test data, of the weights averaged while training where the recipe averages them.
        learning_rates: the same sweep for each row, on validation data, with the first seed.
        validation: part of the training data for it.
        sweep: settings changed for it, such as a smaller budget.
        seeds: how many.
        larger_is_better: whether a larger figure is.
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

    def recipes(self) -> dict[str, Recipe]:
        """The recipe of each distinct row, by name, with the parameters of the first."""
        first, *others = self.rows
        recipe = replace(self.recipe, **first.changes)
        target = recipe.parameters()
        return {first.name: recipe} | {
            row.name: replace(self.recipe, **row.changes).with_parameters(target) for row in others
        }

    @property
    def figure(self) -> str:
        """The metric's name in a result."""
        return f"{self.metric}_ema" if self.recipe.ema else self.metric
