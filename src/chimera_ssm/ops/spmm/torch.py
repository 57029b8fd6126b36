"""Products with A along edges, and substitution level by level, in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import Schedule


def spmm(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    """``A @ x``: weights ``[G, E]``, ``x [G, T, K]``."""
    source, target = topology.tensors("edge_index", x.device)
    message = weight.t().unsqueeze(-1) * x.transpose(0, 1).index_select(0, source)
    flat = message.new_zeros(topology.num_nodes, x.shape[0] * x.shape[2])
    return flat.index_add_(0, target, message.flatten(1)).view(-1, x.shape[0], x.shape[2]).transpose(0, 1)


def substitute_levels(x: Tensor, schedule: Schedule, weight: Tensor, transpose: bool) -> None:
    """Substitute level by level, in place: ``x [T, G, K]``, weights ``[E, G]`` in the order of the schedule."""
    flat = x.view(x.shape[0], -1)
    spans = list(zip(schedule.bounds, schedule.bounds[1:], strict=False))
    for first, last in reversed(spans) if transpose else spans:
        source, target = schedule.source[first:last], schedule.target[first:last]
        if transpose:
            source, target = target, source
        message = weight[first:last].unsqueeze(-1) * x.index_select(0, source)
        flat.index_add_(0, target, message.flatten(1))


def node_major(x: Tensor) -> Tensor:
    """A copy of ``[G, T, K]`` in the layout ``[T, G, K]``, in which rows of a level are gathered whole."""
    return x.transpose(0, 1).clone(memory_format=torch.contiguous_format)


OPERATIONS = {"spmm": Operation(spmm)}
