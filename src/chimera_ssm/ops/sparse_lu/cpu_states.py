"""Mixes by states on general graphs, as autograd sees them: with the factors of `CompiledLDU`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.ops.autograd import (
    arrays_of,
    empty,
    keep,
    not_a_view,
    padded,
    summed,
    twice,
    values_wanted,
    zeros,
)
from chimera_ssm.ops.sparse_lu.cpu import CompiledLDU, eliminated
from chimera_ssm.topology import Topology


def lu_mix_states(topology: Topology, factors: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """``y = (L ⊙ C Bᵀ) V`` by states ``h = L (B ⊗ v)``; arguments as for `lu_mix_mask`."""
    return _MixStates.apply(topology, factors, weight, C, B, V)


def _plain(*arguments: Any) -> Tensor:
    from chimera_ssm.ops.mixing import mix_by_states

    return mix_by_states(eliminated(*arguments), arguments[-1])


class _MixStates(torch.autograd.Function):
    """The mix by states; for the backward pass only the inputs are kept."""

    @staticmethod
    def forward(
        ctx: Any, topology: Topology, factors: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor
    ) -> Tensor:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.sparse_lu import kernels_states as lu_states

        keep(ctx, (topology, factors, weight, C, B, V))
        if not values_wanted():
            return torch.empty_like(V)
        b, c, v = (_by_rank(x, factors, size) for x, size in _sizes(B, C, V))
        y, tasks = zeros(*v.shape, like=v), v.shape[0] * v.shape[1]
        arrays = arrays_of(factors.lower, factors.upper, factors.inverse, b, c, v, y)
        pool.run(lu_states.states_forward, tasks, factors.plan, *arrays, work=_work(factors, b, v))
        return not_a_view(_by_node(y, factors, V.shape))

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.sparse_lu import kernels_states as lu_states

        (_, _, weight, C, B, V), factors = ctx.saved_tensors, ctx.others[1]
        b, c, v, g = (_by_rank(x, factors, size) for x, size in _sizes(B, C, V, *grads))
        (heads, parts), work = v.shape[:2], _work(factors, b, v)
        ranges = min(pool.threads_for(work), heads * parts)
        dweight = empty(parts, *weight.shape, like=v)
        db, dc, dv = zeros(ranges, *b.shape, like=v), zeros(ranges, *c.shape, like=v), zeros(*v.shape, like=v)
        rows = tuple(arrays_of(factors.lower, factors.upper, *factors.transposed()))
        arrays = arrays_of(factors.inverse, b, c, v, g, dweight, db, dc, dv)
        pool.run(lu_states.states_backward, ranges, ranges, factors.plan, rows, *arrays, work=work)
        dC, dB, dV = (_by_node(x, factors, y.shape) for x, y in ((summed(dc), C), (summed(db), B), (dv, V)))
        return None, None, summed(dweight), dC, dB, dV


def _sizes(B: Tensor, C: Tensor, *channels: Tensor) -> list[tuple[Tensor, int]]:
    """Each tensor, and how many of its last dimension are in a block."""
    from chimera_ssm.cpu.tiles import CHANNELS, STATES

    return [(B, STATES), (C, STATES), *((x, CHANNELS) for x in channels)]


def _by_rank(x: Tensor, factors: CompiledLDU, size: int) -> Tensor:
    """``[Z, H, T, K]`` → ``[Z·H, K/size, T, size]``, nodes in the order of elimination, with zeros after the last."""
    node = torch.from_numpy(factors.plan.node)
    x = padded(x.detach(), size).flatten(0, 1)
    x = torch.index_select(x, 1, node, out=empty(*x.shape, like=x))
    return _copied(x.unflatten(2, (-1, size)).transpose(1, 2))


def _by_node(x: Tensor, factors: CompiledLDU, shape: torch.Size) -> Tensor:
    """The reverse."""
    node = torch.from_numpy(factors.plan.node)
    x = _copied(x.transpose(1, 2)).flatten(2)
    return empty(*x.shape, like=x).index_copy_(1, node, x)[..., : shape[-1]].view(shape)


def _copied(x: Tensor) -> Tensor:
    """A contiguous copy."""
    return empty(*x.shape, like=x).copy_(x)


def _work(factors: CompiledLDU, b: Tensor, v: Tensor) -> int:
    """Multiplications of a mix."""
    (_, blocks, nodes, size), heads = b.shape, v.shape[0]
    return heads * blocks * size * v.shape[1] * v.shape[3] * 2 * (nodes + factors.lower.shape[1])
