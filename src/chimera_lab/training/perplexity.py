"""Perplexity."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics import Metric


class Perplexity(Metric):
    """``exp`` of the mean cross-entropy of scores ``[n, vocab_size]`` with words ``[n]``."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, scores: Tensor, words: Tensor) -> None:
        """Add predictions."""
        self.total += F.cross_entropy(scores, words, reduction="sum")
        self.count += len(words)

    def compute(self) -> Tensor:
        """The perplexity of all words."""
        return (self.total / self.count).exp()
