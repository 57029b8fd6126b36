"""Metrics of graph tasks, as the Long Range Graph Benchmark defines them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat


class AveragePrecision(Metric):
    """Mean average precision over the labels that occur with both values; a label without positives does not count.

    Of one label, with predictions in falling order, equal ones together: ``Σ_n (R_n − R_{n−1}) P_n``.
    """

    predictions: list[Tensor]
    targets: list[Tensor]

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.add_state("predictions", default=[], dist_reduce_fx="cat")
        self.add_state("targets", default=[], dist_reduce_fx="cat")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Predictions and labels ``[B, labels]``, labels 0, 1 or NaN."""
        self.predictions.append(predictions.float())
        self.targets.append(targets.float())

    def compute(self) -> Tensor:
        """The mean; NaN if no label counts."""
        predictions, targets = dim_zero_cat(self.predictions), dim_zero_cat(self.targets)
        scores = []
        for score, label in zip(predictions.t(), targets.t(), strict=True):
            known = ~label.isnan()
            if (label[known] == 1).any() and (label[known] == 0).any():
                scores.append(average_precision(score[known], label[known] == 1))
        return torch.stack(scores).mean() if scores else torch.tensor(torch.nan)


def average_precision(scores: Tensor, positive: Tensor) -> Tensor:
    """Average precision of one label: scores ``[n]``, and whether it is there ``[n]``."""
    order = scores.argsort(descending=True, stable=True)
    scores, hits = scores[order], positive[order].double().cumsum(0)
    last = torch.cat([scores[1:] != scores[:-1], scores.new_ones(1, dtype=torch.bool)])  # of equal scores
    hits, seen = hits[last], (last.nonzero().flatten() + 1).double()
    recall = torch.diff(hits / hits[-1], prepend=hits.new_zeros(1))
    return (recall * hits / seen).sum()


class MeanAbsoluteError(Metric):
    """Mean of ``|prediction − target|`` over all targets that are known."""

    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Predictions and targets ``[B, targets]``, NaN where unknown."""
        known = ~targets.isnan()
        self.total += (predictions - targets)[known].abs().double().sum()
        self.count += known.sum()

    def compute(self) -> Tensor:
        """The mean."""
        return self.total / self.count


class LogSquaredError(Metric):
    """``log₁₀`` of the mean of ``(prediction − target)²`` over all targets that are known."""

    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Predictions and targets ``[B, targets]``, NaN where unknown."""
        known = ~targets.isnan()
        self.total += (predictions - targets)[known].double().square().sum()
        self.count += known.sum()

    def compute(self) -> Tensor:
        """The logarithm."""
        return (self.total / self.count).log10()


class MacroF1(Metric):
    """Mean over classes of F1, of the classes that occur in labels or predictions.

    Args:
        num_classes: how many there are.
        kwargs: of `Metric`.
    """

    right: Tensor
    predicted: Tensor
    actual: Tensor

    def __init__(self, num_classes: int, **kwargs: Any):
        super().__init__(**kwargs)
        for name in ("right", "predicted", "actual"):
            self.add_state(name, torch.zeros(num_classes, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Logits ``[n, classes]`` and classes ``[n]``, negative where unknown."""
        known = targets >= 0
        guesses, classes = predictions[known].argmax(-1), targets[known]
        size = len(self.right)
        self.right += torch.bincount(classes[guesses == classes], minlength=size)
        self.predicted += torch.bincount(guesses, minlength=size)
        self.actual += torch.bincount(classes, minlength=size)

    def compute(self) -> Tensor:
        """The mean."""
        both = self.predicted + self.actual
        return (2 * self.right.double() / both)[both > 0].mean()


class Accuracy(MacroF1):
    """Part of the labels that were found."""

    def compute(self) -> Tensor:
        """The part."""
        return self.right.sum().double() / self.actual.sum()
