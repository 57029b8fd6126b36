"""Convolutions over windows by gathering: the table of neighbours, and the convolution in PyTorch operations."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.topology import Topology


def gather_convolution(x: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
    """``bias + Σ_o weight_o ⊙ x_{table[o, t]}``, with ``x [Z, T, D]``, ``weight [taps, D]``, ``table [taps, T]``."""
    padded, y = F.pad(x, (0, 0, 0, 1)), bias
    for nodes, tap in zip(table, weight, strict=True):
        y = y + tap * padded.index_select(1, nodes)
    return y


def window_table(topology: Topology, width: int, num_axes: int, causal: bool, device: torch.device) -> Tensor:
    """The node at each place of the window of each node, or T outside the topology, ``[taps, T]``."""
    columns, start = [], 0
    for part in topology.parts:
        shape = np.array(shape_of(part))
        backward = causal and getattr(part, "reverse", False)
        here = np.stack(np.unravel_index(np.arange(part.num_nodes), shape), axis=1)
        low = 1 - width if causal else -(width // 2)
        rows = []
        for offset in itertools.product(range(low, low + width), repeat=num_axes):
            there = here - offset if backward else here + offset
            inside = np.all((there >= 0) & (there < shape), axis=1)
            node = np.ravel_multi_index(tuple(np.where(inside[:, None], there, 0).T), tuple(shape))
            rows.append(np.where(inside, node + start, topology.num_nodes))
        columns.append(np.stack(rows))
        start += part.num_nodes
    return torch.from_numpy(np.concatenate(columns, axis=1)).to(device)


def shape_of(topology: Topology) -> tuple[int, ...]:
    """Nodes along each axis of a line or grid."""
    return getattr(topology, "shape", (topology.num_nodes,))
