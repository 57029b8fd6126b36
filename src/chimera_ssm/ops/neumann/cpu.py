"""The truncated series by CPU kernels: all terms of a few columns at a time, while these stay in the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    empty,
    not_a_view,
    padded,
    save_arguments,
    summed,
    zeros,
)
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.neumann import kernels
from chimera_ssm.ops.neumann import torch as torch_backend
from chimera_ssm.topology import Topology

#: Bytes of the terms of a block of columns that the backward pass may store.
_STORED = 1 << 26


def _fits(topology: Topology, weight: Tensor, rhs: Tensor, powers: Sequence[int]) -> bool:
    """Whether the terms of a block of columns of the largest part can be stored."""
    largest = max(part.num_nodes for part in topology.parts)
    return max(powers) * largest * kernels.LANES * rhs.element_size() <= _STORED


def series(topology: Topology, weight: Tensor, rhs: Tensor, powers: Sequence[int]) -> Tensor:
    """``Σ_{k≤n} Aᵏ rhs``, n for each part: weights ``[G, E]``, ``rhs [G, T, K]``."""
    return _Series.apply(weight, rhs, topology, powers)


def _plain(weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
    return torch_backend.iterate(weight, rhs, topology, powers)


class _Series(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
        save_arguments(ctx, (weight, rhs, topology, powers))
        wide, power = padded(rhs, kernels.LANES), np.array(powers)
        x, plan = empty(*wide.shape, like=wide), topology.cached(kernels.series_plan)
        G, _, K = wide.shape
        tasks, arrays = G * power.size * (K // kernels.LANES), (*arrays_of(weight, wide), x.numpy())
        threads.run(kernels.forward, tasks, plan, power, *arrays, work=_work(topology, power, wide))
        return not_a_view(x[..., : rhs.shape[-1]])

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight, rhs, *_), (_, _, topology, powers) = ctx.saved_tensors, ctx.others
        wide, g = (padded(x, kernels.LANES) for x in (rhs, grad))
        power, wanted = np.array(powers), ctx.needs_input_grad[1]
        plans = topology.cached(kernels.series_plan), topology.flip().cached(kernels.series_plan)
        db = empty(*(wide.shape if wanted else (0, 0, 0)), like=wide)
        (G, _, K), work = wide.shape, 4 * _work(topology, power, wide)
        tasks = G * power.size
        slots = min(K // kernels.LANES, -(-threads.threads_for(work) // tasks))
        dw = zeros(slots, *weight.shape, like=weight)
        arrays = *arrays_of(weight, wide, g), dw.numpy(), db.numpy()
        threads.run(kernels.backward, tasks * slots, slots, *plans, power, *arrays, work=work)
        return summed(dw), db[..., : rhs.shape[-1]] if wanted else None, None, None


def _work(topology: Topology, power: np.ndarray, x: Tensor) -> float:
    """Multiplications of a forward pass, about."""
    return float(power.max()) * topology.num_edges * x.shape[0] * x.shape[2]


OPERATIONS = {"series": Operation(series, _fits)}
