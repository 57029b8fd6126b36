"""From features of nodes to predictions for graphs or nodes, and their losses: pooling, the head, three losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.topology.checks import capturing


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
        batch = torch.zeros(nodes.shape[0], dtype=torch.long, device=nodes.device)
    graphs = _num_graphs(batch, batch_size)
    count = batch.new_zeros(graphs).scatter_add(0, batch, torch.ones_like(batch))
    zeros = nodes.new_zeros(graphs, nodes.shape[1])
    if pooling == "max":
        return zeros.scatter_reduce(0, batch.unsqueeze(1).expand_as(nodes), nodes, "amax", include_self=False)
    total = zeros.index_add(0, batch, nodes)
    return total if pooling == "sum" else total / count.clamp(min=1).unsqueeze(1)


def _num_graphs(batch: Tensor, batch_size: int | None) -> Any:
    """The number of graphs: ``batch_size``, or as many as ``batch`` numbers."""
    if capturing():
        if batch_size is not None:
            return batch_size
        if torch.jit.is_tracing():
            return batch.max() + 1
        graphs = batch.max().item() + 1  # stays symbolic, unlike int(…)
        torch._check(graphs > 0)
        return graphs
    graphs = int(batch.max()) + 1 if batch.numel() else 0
    if batch_size is not None and graphs > batch_size:
        raise ValueError(
            f"batch_size must be at least {graphs}, as batch numbers graphs from 0 to {graphs - 1}, "
            f"found {batch_size}; leave it out to infer it"
        )
    return graphs if batch_size is None else batch_size


# Losses, as the Long Range Graph Benchmark defines them. Missing labels are ignored.


def absolute_error(predictions: Tensor, labels: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Mean of ``|predictions − labels| / scale`` over labels that are not NaN, ``[B, targets]``."""
    _check_shape(predictions, labels)
    known = ~labels.isnan()
    error = (predictions - labels.nan_to_num()).abs() / scale
    return (error * known).sum() / known.sum().clamp(min=1)


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of labels 0 and 1 that are not NaN, ``[B, labels]``."""
    _check_shape(logits, labels)
    labels = labels.to(logits.dtype)
    known = ~labels.isnan()
    loss = F.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    return (loss * known).sum() / known.sum().clamp(min=1)


def weighted_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy in which a class is weighted by the share of the other classes in the batch.

    ``labels [n]`` are classes, negative where unknown; ``logits [n, classes]``.
    """
    _check_classes(logits, labels)
    known = labels >= 0
    logits, labels = logits[known], labels[known]
    if labels.unique().numel() < 2:  # all weights would be zero
        return F.cross_entropy(logits, labels, reduction="sum") / max(len(labels), 1)
    weight = 1 - torch.bincount(labels, minlength=logits.shape[1]).to(logits.dtype) / len(labels)
    return F.cross_entropy(logits, labels, weight)


def _check_shape(predictions: Tensor, labels: Tensor) -> None:
    if predictions.shape != labels.shape:
        raise ValueError(f"labels must have shape {list(predictions.shape)}, found {list(labels.shape)}")


def _check_classes(logits: Tensor, labels: Tensor) -> None:
    """Raise a ValueError unless there is a class for each prediction, negative where unknown."""
    if labels.shape != logits.shape[:1]:
        remedy = "; remove the last dimension with .squeeze(1)" if labels.shape == (len(logits), 1) else ""
        raise ValueError(f"labels must have shape [{len(logits)}], a class each, found {list(labels.shape)}{remedy}")
    if labels.dtype != torch.long:
        raise ValueError(f"classes must be int64, found {labels.dtype}; convert them with .long()")
    if len(labels) and (highest := int(labels.max())) >= logits.shape[1]:
        raise ValueError(
            f"classes must be below num_labels={logits.shape[1]}, found {highest}; build the model with more labels, "
            "or number the classes from 0"
        )
