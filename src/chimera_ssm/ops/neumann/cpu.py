"""Truncated series, all terms of a few columns at a time, while these stay in the processor's caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops.autograd import (
    arrays_of,
    empty,
    flipped,
    keep,
    not_a_view,
    padded,
    summed,
    twice,
    zeros,
)
from chimera_ssm.topology import Topology

#: Terms of a block of columns that the backward pass may keep, in bytes.
_KEPT = 1 << 26


def fits(topology: Topology, powers: Sequence[int], itemsize: int) -> bool:
    """Whether the terms of a block of columns of the largest part can be kept."""
    from chimera_ssm.ops.neumann.kernels import LANES

    largest = max(part.num_nodes for part in topology.parts)
    return max(powers) * largest * LANES * itemsize <= _KEPT


def series(topology: Topology, weight: Tensor, rhs: Tensor, powers: Sequence[int]) -> Tensor:
    """``Σ_{k≤n} Aᵏ rhs``, n for each part: weights ``[G, E]``, ``rhs [G, T, K]``."""
    return _Series.apply(weight, rhs, topology, powers)


def _plain(weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
    from chimera_ssm.ops.neumann.solver import iterate

    return iterate(weight, rhs, topology, powers)


class _Series(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.neumann import kernels

        keep(ctx, (weight, rhs, topology, powers))
        wide, power = padded(rhs, kernels.LANES), np.array(powers)
        x, plan = empty(*wide.shape, like=wide), kernels.series_plan(topology)
        G, _, K = wide.shape
        tasks, arrays = G * power.size * (K // kernels.LANES), (*arrays_of(weight, wide), x.numpy())
        pool.run(kernels.forward, tasks, plan, power, *arrays, work=_work(topology, power, wide))
        return not_a_view(x[..., : rhs.shape[-1]])

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.neumann import kernels

        (weight, rhs, *_), (_, _, topology, powers) = ctx.saved_tensors, ctx.others
        wide, g = (padded(x, kernels.LANES) for x in (rhs, grad))
        power, wanted = np.array(powers), ctx.needs_input_grad[1]
        plans = kernels.series_plan(topology), kernels.series_plan(flipped(topology))
        db = empty(*(wide.shape if wanted else (0, 0, 0)), like=wide)
        (G, _, K), work = wide.shape, 4 * _work(topology, power, wide)
        tasks = G * power.size
        slots = min(K // kernels.LANES, -(-pool.threads_for(work) // tasks))
        dw = zeros(slots, *weight.shape, like=weight)
        arrays = *arrays_of(weight, wide, g), dw.numpy(), db.numpy()
        pool.run(kernels.backward, tasks * slots, slots, *plans, power, *arrays, work=work)
        return summed(dw), db[..., : rhs.shape[-1]] if wanted else None, None, None


def _work(topology: Topology, power: np.ndarray, x: Tensor) -> float:
    """Multiplications of a forward pass, about."""
    return float(power.max()) * topology.num_edges * x.shape[0] * x.shape[2]
