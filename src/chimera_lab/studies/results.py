"""The results of a study's rows."""

from __future__ import annotations

from dataclasses import dataclass

#: The column of metrics on test data, and the row of the majority class.
TEST, MAJORITY = "test", "majority"


@dataclass(frozen=True)
class RowResult:
    """A trained row.

    Attributes:
        name: name of the row.
        parameters: number of parameters of the model.
        lr: learning rate, chosen on validation data or given by the recipe.
        sweep: the metric on validation data by learning rate.
        figures: values by column (`TEST`, and each further evaluation) and metric, one per seed.
        seconds: training time, mean over seeds.
        diverged: number of seeds whose training diverged; their values are NaN.
    """

    name: str
    parameters: int
    lr: float
    sweep: dict[str, float]
    figures: dict[str, dict[str, list[float]]]
    seconds: float
    diverged: int = 0
