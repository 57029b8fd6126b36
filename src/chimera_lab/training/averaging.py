"""The exponential moving average of a model's weights."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn


def averaged_copy(model: nn.Module) -> nn.Module:
    """A copy of a model that holds the average."""
    return deepcopy(model).requires_grad_(False).eval()


def decay_at(decay: float, step: int) -> float:
    """The decay after ``step`` steps: ``min(decay, (1 + step) / (10 + step))``.

    A constant 0.99996 would keep the random initial weights in the average for 25,000 steps. With the warm-up, the
    average extends over about the last tenth of the steps until ``decay`` is reached (0.99996: at 225,000 steps).
    """
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """``average ← decay · average + (1 − decay) · model``; buffers and integers are copied."""
    torch._foreach_lerp_(list(average.parameters()), [p.detach() for p in model.parameters()], 1 - decay)
    for mean, value in zip(average.buffers(), model.buffers(), strict=True):
        mean.copy_(value)
