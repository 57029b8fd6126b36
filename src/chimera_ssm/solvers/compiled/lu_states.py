"""Mixes by states on general graphs, as autograd sees them: with the factors of `CompiledLDU`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.solvers.compiled.common import arrays_of, keep, not_a_view, padded, twice, values_wanted
from chimera_ssm.solvers.compiled.lu import CompiledLDU, eliminated
from chimera_ssm.topology import Topology


def lu_mix_states(topology: Topology, factors: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """``y = (L ⊙ C Bᵀ) V`` by states ``h = L (B ⊗ v)``; arguments as for `lu_mix_mask`."""
    return _MixStates.apply(topology, factors, weight, C, B, V)


def _plain(*arguments: Any) -> Tensor:
    from chimera_ssm.solvers.forms import mix_by_states

    return mix_by_states(eliminated(*arguments), arguments[-1])


class _MixStates(torch.autograd.Function):
    """The mix by states; for the backward pass only the inputs are kept."""

    @staticmethod
    def forward(
        ctx: Any, topology: Topology, factors: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor
    ) -> Tensor:
        from chimera_ssm.solvers.kernels import lu_states, pool

        keep(ctx, (topology, factors, weight, C, B, V))
        if not values_wanted():
            return torch.empty_like(V)
        b, c, v = (_by_rank(x, factors, size) for x, size in _sizes(B, C, V))
        y, tasks = torch.zeros_like(v), v.shape[0] * v.shape[1]
        arrays = arrays_of(factors.lower, factors.upper, factors.inverse, b, c, v, y)
        pool.run(lu_states.states_forward, tasks, factors.plan, *arrays, work=_work(factors, b, v))
        return not_a_view(_by_node(y, factors, V.shape))

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from chimera_ssm.solvers.kernels import lu_states, pool

        (_, _, weight, C, B, V), factors = ctx.saved_tensors, ctx.others[1]
        b, c, v, g = (_by_rank(x, factors, size) for x, size in _sizes(B, C, V, *grads))
        (heads, parts), work = v.shape[:2], _work(factors, b, v)
        ranges = min(pool.threads_for(work), heads * parts)
        dweight = v.new_empty(parts, *weight.shape)
        db, dc, dv = v.new_zeros(ranges, *b.shape), v.new_zeros(ranges, *c.shape), torch.zeros_like(v)
        rows = tuple(arrays_of(factors.lower, factors.upper, *factors.transposed()))
        arrays = arrays_of(factors.inverse, b, c, v, g, dweight, db, dc, dv)
        pool.run(lu_states.states_backward, ranges, ranges, factors.plan, rows, *arrays, work=work)
        dC, dB, dV = (_by_node(x, factors, y.shape) for x, y in ((dc.sum(0), C), (db.sum(0), B), (dv, V)))
        return None, None, dweight.sum(0), dC, dB, dV


def _sizes(B: Tensor, C: Tensor, *channels: Tensor) -> list[tuple[Tensor, int]]:
    """Each tensor, and how many of its last dimension are in a block."""
    from chimera_ssm.solvers.kernels.blocks import CHANNELS, STATES

    return [(B, STATES), (C, STATES), *((x, CHANNELS) for x in channels)]


def _by_rank(x: Tensor, factors: CompiledLDU, size: int) -> Tensor:
    """``[Z, H, T, K]`` → ``[Z·H, K/size, T, size]``, nodes in the order of elimination, with zeros after the last."""
    node = torch.from_numpy(factors.plan.node)
    x = padded(x.detach(), size).flatten(0, 1).index_select(1, node)
    return x.unflatten(2, (-1, size)).transpose(1, 2).contiguous()


def _by_node(x: Tensor, factors: CompiledLDU, shape: torch.Size) -> Tensor:
    """The reverse."""
    node = torch.from_numpy(factors.plan.node)
    x = x.transpose(1, 2).flatten(2)
    return torch.empty_like(x).index_copy_(1, node, x)[..., : shape[-1]].view(shape)


def _work(factors: CompiledLDU, b: Tensor, v: Tensor) -> int:
    """Multiplications of a mix."""
    (_, blocks, nodes, size), heads = b.shape, v.shape[0]
    return heads * blocks * size * v.shape[1] * v.shape[3] * 2 * (nodes + factors.lower.shape[1])
