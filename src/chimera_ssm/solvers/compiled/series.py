"""Truncated series, all terms of a few columns at a time, while these stay in the processor's caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from chimera_ssm.solvers.compiled.common import arrays_of, flipped, padded
from chimera_ssm.topology import Topology

#: Terms of a block of columns that the backward pass may keep, in bytes.
_KEPT = 1 << 26


def fits(topology: Topology, powers: Sequence[int], itemsize: int) -> bool:
    """Whether the terms of a block of columns of the largest part can be kept."""
    from chimera_ssm.solvers.kernels.series import LANES

    largest = max(part.num_nodes for part in topology.parts)
    return max(powers) * largest * LANES * itemsize <= _KEPT


def series(topology: Topology, weight: Tensor, rhs: Tensor, powers: Sequence[int]) -> Tensor:
    """``Σ_{k≤n} Aᵏ rhs``, n for each part: weights ``[G, E]``, ``rhs [G, T, K]``."""
    return _Series.apply(weight, rhs, topology, powers)


class _Series(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
        from chimera_ssm.solvers.kernels import pool
        from chimera_ssm.solvers.kernels import series as kernels

        wide, power = padded(rhs, kernels.LANES), np.array(powers)
        x, plan = torch.empty_like(wide), kernels.series_plan(topology)
        ctx.save_for_backward(weight, wide)
        ctx.topology, ctx.power, ctx.columns = topology, power, rhs.shape[-1]
        G, _, K = wide.shape
        tasks, arrays = G * power.size * (K // kernels.LANES), (*arrays_of(weight, wide), x.numpy())
        pool.run(kernels.forward, tasks, plan, power, *arrays, work=_work(topology, power, wide))
        return x[..., : rhs.shape[-1]]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from chimera_ssm.solvers.kernels import pool
        from chimera_ssm.solvers.kernels import series as kernels

        weight, wide = ctx.saved_tensors
        g, wanted = padded(grad, kernels.LANES), ctx.needs_input_grad[1]
        plans = kernels.series_plan(ctx.topology), kernels.series_plan(flipped(ctx.topology))
        db = torch.empty_like(wide) if wanted else wide.new_empty(0, 0, 0)
        (G, _, K), work = wide.shape, 4 * _work(ctx.topology, ctx.power, wide)
        tasks = G * ctx.power.size
        slots = min(K // kernels.LANES, -(-pool.threads_for(work) // tasks))
        dw = weight.new_zeros(slots, *weight.shape)
        arrays = *arrays_of(weight, wide, g), dw.numpy(), db.numpy()
        pool.run(kernels.backward, tasks * slots, slots, *plans, ctx.power, *arrays, work=work)
        return dw.sum(0), db[..., : ctx.columns] if wanted else None, None, None


def _work(topology: Topology, power: np.ndarray, x: Tensor) -> float:
    """Multiplications of a forward pass, about."""
    return float(power.max()) * topology.num_edges * x.shape[0] * x.shape[2]
