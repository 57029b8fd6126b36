"""The truncated series in PyTorch, with the gradient of the truncated sum."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.autograd import double_backward_via, save_arguments
from chimera_ssm.ops.contract import edge_products
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.mixing import scaled
from chimera_ssm.ops.terms import Term
from chimera_ssm.topology import Topology


def series(topology: Topology, weight: Tensor, rhs: Tensor, powers: tuple[int, ...]) -> Tensor:
    """``Σ_{k≤n} Aᵏ rhs``, n for each part: weights ``[G, E]``, ``rhs [G, T, K]``."""
    return _Truncated.apply(weight, rhs, topology, powers)


def iterate(weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
    """``Σ_{k≤n} Aᵏ rhs`` as below, with every iterate stored: for derivatives of any order."""
    x, steps = rhs, _Steps(topology, weight, powers)
    for k in range(steps.count):
        x = rhs + _spmm(topology, steps.masked(weight, k), x)
    return x


class _Truncated(torch.autograd.Function):
    """x_k = b + A x_{k−1}, x_0 = b; adjoint λ_n = g, λ_{k−1} = Aᵀ λ_k, ∂A_ij = Σ_k λ_{k,i} x_{k−1,j}, ∂b = Σ_k λ_k.

    Parts with fewer terms start later: A is zero for them until then. Of the n iterates √n are stored; the others are
    recomputed in the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rhs: Tensor, topology: Topology, powers: tuple[int, ...]) -> Tensor:
        x, b, kept, steps = rhs, rhs.contiguous(), [], _Steps(topology, weight, powers)
        for k in range(steps.count):
            if k % steps.stride == 0:
                kept.append(x)
            x = b + _spmm(topology, steps.masked(weight, k), x)
        save_arguments(ctx, (weight, rhs, topology, powers), *kept)
        ctx.steps = steps
        return x.clone()

    @staticmethod
    @double_backward_via(iterate)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight, rhs, _, _, *kept), topology, steps = ctx.saved_tensors, ctx.others[2], ctx.steps
        flipped = topology.flip()
        on_edges, total, adjoint = torch.zeros_like(weight), grad.clone(), grad
        for first in reversed(range(0, steps.count, steps.stride)):
            last, iterates = min(first + steps.stride, steps.count), [kept[first // steps.stride]]
            for k in range(first, last - 1):
                iterates.append(rhs + _spmm(topology, steps.masked(weight, k), iterates[-1]))
            for k in reversed(range(first, last)):
                on_edges += steps.masked(edge_products(topology, adjoint, iterates[k - first]), k)
                adjoint = _spmm(flipped, steps.masked(weight, k), adjoint)
                total += adjoint
        return on_edges, total, None, None


class _Steps:
    """The iterations of a series, and the edges that take part in each."""

    def __init__(self, topology: Topology, weight: Tensor, powers: Sequence[int]):
        self.count = max(powers)
        self.stride = isqrt(self.count) + 1
        self.first = None  # iteration with which each edge begins; None: all with the first
        if min(powers) < self.count:
            first = self.count - np.array(powers)[topology._part[topology._target]]
            self.first = torch.from_numpy(first).to(weight.device)

    def masked(self, on_edges: Tensor, step: int) -> Tensor:
        """Values of edges ``[G, E]``, zero where they do not take part."""
        return on_edges if self.first is None else on_edges.masked_fill(self.first > step, 0)


def _spmm(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    return dispatch.run("spmm", "spmm", topology, weight, x)


def mix_by_mask(terms: list[Term], V: Tensor) -> Tensor:
    """``(L ⊙ C B̄ᵀ) V``, part after part, without padding to the largest."""
    (term,) = terms
    sizes = term.topology.part_sizes.tolist()
    rows = term.resolvent.mask(), term.C, term.B, scaled(term, V)
    return torch.cat([_mix_part(*part) for part in zip(*(x.split(sizes, dim=-2) for x in rows), strict=True)], dim=-2)


def _has_unequal_parts(terms: list[Term], V: Tensor) -> bool:
    sizes = terms[0].topology.part_sizes
    return len(terms) == 1 and sizes.size * sizes.max() ** 2 > 2 * (sizes**2).sum()


def _mix_part(mask: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """``(L ⊙ C Bᵀ) V`` of one part: ``mask [Z·H, S, ≥ S]``, ``C, B [Z, G, S, N]``, ``V [Z, H, S, P]``."""
    Z, G, S, _ = C.shape
    mask = mask[..., :S].view(Z, G, -1, S, S)
    return (mask * (C @ B.mT).unsqueeze(2)).flatten(1, 2) @ V


OPERATIONS = {"series": Operation(series), "mix_by_mask": Operation(mix_by_mask, _has_unequal_parts)}
