"""Norms of features of nodes or edges of a batch of graphs, ``[n, dim]``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.models.graph.configuration import ChimeraGraphConfig


class BatchNorm(nn.BatchNorm1d):
    """`nn.BatchNorm1d` that also accepts fewer than two rows in training, and normalizes them as in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or input.shape[0] > 1:
            return super().forward(input)
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )


class GraphNorm(nn.Module):
    """Mean and variance over all rows and features of each graph (``mode="graph"`` of PyG's ``LayerNorm``).

        y = weight · (x − mean) / √(var + eps) + bias

    Args:
        dim: features.
        eps: added to the variance.

    Shapes: ``x [n, dim]``, ``batch [n]``, ascending, or ``None`` for one graph → ``[n, dim]``.
    """

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def reset_parameters(self) -> None:
        """Weights one, biases zero."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def reset_own_parameters(self) -> None:
        """Weights one, biases zero: there are no submodules."""
        self.reset_parameters()

    def forward(self, x: Tensor, batch: Tensor | None = None) -> Tensor:
        batch = torch.zeros(len(x), dtype=torch.long, device=x.device) if batch is None else batch
        size = int(batch[-1]) + 1 if len(batch) else 0
        count = x.shape[1] * torch.bincount(batch, minlength=size).clamp(min=1).unsqueeze(1)
        x = x - _total(x, batch, size).div(count)[batch]
        variance = _total(x.square(), batch, size) / count
        return x * (variance + self.eps).rsqrt()[batch] * self.weight + self.bias


def _total(x: Tensor, batch: Tensor, size: int) -> Tensor:
    """Sum over the rows of each graph and all features, ``[size, 1]``."""
    return x.new_zeros(size).index_add(0, batch, x.sum(1)).unsqueeze(1)


NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "graph": GraphNorm}


def norm_of(config: ChimeraGraphConfig) -> nn.Module:
    """The norm that a configuration selects."""
    return NORMS[config.norm](config.hidden_size)


def normalized(norm: nn.Module, x: Tensor, batch: Tensor | None) -> Tensor:
    """``norm(x)``; ``batch`` is the index of each row's graph, ascending."""
    return norm(x, batch) if isinstance(norm, GraphNorm) else norm(x)
