"""Products with A and substitution along edges by CPU kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import arrays_of, padded
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.spmm import kernels
from chimera_ssm.topology import Topology


def spmm(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    """``A @ x``: weights ``[G, E]``, ``x [G, T, K]``; on the flipped topology ``Aᵀ @ x``."""
    wide = padded(x, 16)
    y = torch.zeros_like(wide)
    _accumulate(topology, weight, wide, y)
    return y[..., : x.shape[-1]]


def substitute(topology: Topology, weight: Tensor, rhs: Tensor) -> Tensor:
    """``x_i = b_i + Σ_j A_ij x_j`` in topological order; acyclic topologies only."""
    x = pad(rhs, (0, -rhs.shape[-1] % 16)).clone(memory_format=torch.contiguous_format)
    _accumulate(topology, weight, x, x)
    return x[..., : rhs.shape[-1]]


def _accumulate(topology: Topology, weight: Tensor, x: Tensor, y: Tensor) -> None:
    """``y += A x``, node after node, so that with x = y it is a substitution."""
    plan, (heads, _, K) = topology.cached(kernels.incoming_edges), y.shape
    arrays = [*arrays_of(weight, x), y.numpy()]
    threads.run(
        kernels.accumulate, heads * -(-K // kernels.COLUMNS), plan, *arrays,
        work=heads * K * (topology.num_edges + topology.num_nodes),
    )  # fmt: skip


OPERATIONS = {"spmm": Operation(spmm), "substitute": Operation(substitute)}
