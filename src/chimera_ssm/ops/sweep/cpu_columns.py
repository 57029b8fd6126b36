"""Solves for columns: sweeps of acyclic topologies, and products with A."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.ops.autograd import arrays_of, flipped, padded
from chimera_ssm.topology import Topology


class CompiledSweep:
    """Factors of an acyclic topology: its weights, to be swept along and against the edges."""

    def __init__(self, topology: Topology, weight: Tensor):
        self.topology, self.weight = topology, weight

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        x = pad(rhs, (0, -rhs.shape[-1] % 16)).clone(memory_format=torch.contiguous_format)
        _pull(flipped(self.topology) if transpose else self.topology, self.weight, x, x)
        return x[..., : rhs.shape[-1]]


def spread(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    """``A @ x``: weights ``[G, E]``, ``x [G, T, K]``; on the flipped topology ``Aᵀ @ x``."""
    wide = padded(x, 16)
    y = torch.zeros_like(wide)
    _pull(topology, weight, wide, y)
    return y[..., : x.shape[-1]]


def _pull(topology: Topology, weight: Tensor, x: Tensor, y: Tensor) -> None:
    from chimera_ssm.cpu import threads as pool
    from chimera_ssm.ops.sweep import kernels_columns as pulls

    plan, (heads, _, K) = pulls.pull_plan(topology), y.shape
    arrays = [*arrays_of(weight, x), y.numpy()]
    pool.run(
        pulls.pull, heads * -(-K // pulls.COLUMNS), plan.node, plan.begin, plan.edge, plan.source, *arrays,
        work=heads * K * (topology.num_edges + topology.num_nodes),
    )  # fmt: skip
