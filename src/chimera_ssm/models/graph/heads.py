"""From features of nodes to predictions for graphs or nodes: pooling, and the head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chimera_ssm.models.graph.configuration import ChimeraGraphConfig


class Head(nn.Module):
    """Residual layers ``x + dropout(gelu(norm(linear(x))))`` and a linear layer.

    Shapes: ``[n, hidden_size]`` → ``[n, num_labels]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        width, labels = config.hidden_size, config.num_labels
        self.hidden = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(config.dropout))
            for _ in range(config.head_layers - 1)
        )
        self.out = nn.Linear(width, labels)  # ty: ignore[invalid-argument-type]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = x + layer(x)
        return self.out(x)


def pool(nodes: Tensor, batch: Tensor | None, batch_size: int | None, pooling: str) -> Tensor:
    """The mean, sum or maximum over the nodes of each graph, ``[B, hidden_size]``; zero for a graph without nodes."""
    if batch is None:
        batch = torch.zeros(len(nodes), dtype=torch.long, device=nodes.device)
    count = torch.bincount(batch, minlength=batch_size or 0)
    if batch_size is not None and len(count) > batch_size:
        raise ValueError(
            f"batch_size must be at least {len(count)}, as batch numbers graphs from 0 to {len(count) - 1}, "
            f"found {batch_size}; leave it out to infer it"
        )
    zeros = nodes.new_zeros(len(count), nodes.shape[1])
    if pooling == "max":
        return zeros.index_reduce(0, batch, nodes, "amax", include_self=False)
    total = zeros.index_add(0, batch, nodes)
    return total if pooling == "sum" else total / count.clamp(min=1).unsqueeze(1)
