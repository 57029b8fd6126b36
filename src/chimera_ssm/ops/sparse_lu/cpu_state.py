"""Mixes through states on general graphs, by CPU kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.cpu.tiles import CHANNELS, STATES
from chimera_ssm.ops import mixing
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    empty,
    not_a_view,
    padded,
    save_arguments,
    summed,
    values_wanted,
    zeros,
)
from chimera_ssm.ops.mixing import scaled
from chimera_ssm.ops.sparse_lu import kernels_state as kernels
from chimera_ssm.ops.sparse_lu.cpu_factors import LDU, factors_of
from chimera_ssm.ops.terms import Term
from chimera_ssm.topology import Topology


def mix_by_state(terms: list[Term], V: Tensor) -> Tensor:
    """``y = (L ⊙ C B̄ᵀ) V`` through states ``h = L (B ⊗ β v)``."""
    (term,) = terms
    return _MixStates.apply(term.topology, factors_of(term), term.weight, term.C, term.B, scaled(term, V))


def _plain(topology: Topology, _: LDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    return mixing.mix_by_state([Term(topology, weight, C, B, None, "sparse_lu")], V)


class _MixStates(torch.autograd.Function):
    """The mix through states; only the inputs are saved for the backward pass."""

    @staticmethod
    def forward(ctx: Any, topology: Topology, factors: LDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
        save_arguments(ctx, (topology, factors, weight, C, B, V))
        if not values_wanted():
            return torch.empty_like(V)
        b, c, v = (_by_rank(x, factors, size) for x, size in _sizes(B, C, V))
        y, tasks = zeros(*v.shape, like=v), v.shape[0] * v.shape[1]
        arrays = arrays_of(factors.lower, factors.upper, factors.inverse, b, c, v, y)
        threads.run(kernels.states_forward, tasks, factors.plan, *arrays, work=_work(factors, b, v))
        return not_a_view(_by_node(y, factors, V.shape))

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (_, _, weight, C, B, V), factors = ctx.saved_tensors, ctx.others[1]
        b, c, v, g = (_by_rank(x, factors, size) for x, size in _sizes(B, C, V, *grads))
        (heads, parts), work = v.shape[:2], _work(factors, b, v)
        ranges = min(threads.threads_for(work), heads * parts)
        dweight = empty(parts, *weight.flatten(0, 1).shape, like=v)
        db, dc, dv = zeros(ranges, *b.shape, like=v), zeros(ranges, *c.shape, like=v), zeros(*v.shape, like=v)
        rows = tuple(arrays_of(factors.lower, factors.upper, *factors.transposed()))
        arrays = arrays_of(factors.inverse, b, c, v, g, dweight, db, dc, dv)
        threads.run(kernels.states_backward, ranges, ranges, factors.plan, rows, *arrays, work=work)
        dC, dB, dV = (_by_node(x, factors, y.shape) for x, y in ((summed(dc), C), (summed(db), B), (dv, V)))
        return None, None, summed(dweight).view(weight.shape), dC, dB, dV


def _sizes(B: Tensor, C: Tensor, *channels: Tensor) -> list[tuple[Tensor, int]]:
    """Each tensor, and how many of its last dimension are in a block."""
    return [(B, STATES), (C, STATES), *((x, CHANNELS) for x in channels)]


def _by_rank(x: Tensor, factors: LDU, size: int) -> Tensor:
    """``[Z, H, T, K]`` → ``[Z·H, K/size, T, size]``, nodes in the order of elimination, with zeros after the last."""
    node = torch.from_numpy(factors.plan.node)
    x = padded(x.detach(), size).flatten(0, 1)
    x = torch.index_select(x, 1, node, out=empty(*x.shape, like=x))
    return _copied(x.unflatten(2, (-1, size)).transpose(1, 2))


def _by_node(x: Tensor, factors: LDU, shape: torch.Size) -> Tensor:
    """The reverse."""
    node = torch.from_numpy(factors.plan.node)
    x = _copied(x.transpose(1, 2)).flatten(2)
    return empty(*x.shape, like=x).index_copy_(1, node, x)[..., : shape[-1]].view(shape)


def _copied(x: Tensor) -> Tensor:
    """A contiguous copy."""
    return empty(*x.shape, like=x).copy_(x)


def _work(factors: LDU, b: Tensor, v: Tensor) -> int:
    """Multiplications of a mix."""
    (_, blocks, nodes, size), heads = b.shape, v.shape[0]
    return heads * blocks * size * v.shape[1] * v.shape[3] * 2 * (nodes + factors.lower.shape[1])
