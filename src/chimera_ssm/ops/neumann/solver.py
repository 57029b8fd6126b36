"""`Neumann`: the truncated series Σ_{k≤n} Aᵏ, with the gradient of what it computes (paper, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops import compiled
from chimera_ssm.ops.autograd import keep, twice
from chimera_ssm.ops.contract import Resolvent, Solver, edge_products
from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.topology import Topology

#: How many multiplications of a matrix product cost as much as one of a sparse product: of the kernel, of PyTorch.
_DENSE_ADVANTAGE, _DENSE_ADVANTAGE_PLAIN = 4, 16
#: Entries of a mask that may be kept for each head if that is quicker: 16 MB in float32.
_SMALL_MASK = 1 << 22


@dataclass(frozen=True)
class Neumann(Solver):
    """An approximation on any topology: exactly the first terms of ``I + A + A² + …``.

    With terms up to the diameter every node hears from every node that can reach it; with terms up to the
    longest path of an acyclic topology the series is complete.

    Args:
        terms: highest power of A; the diameter if omitted, in a union that of each part.
        squared: the paper's product (I + A)(I + A²)…(I + Aᵖ), p the least power of two that is not below
            ``terms``: the same series, up to the power 2p − 1.
    """

    terms: int | None = None
    squared: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.terms, int) and not isinstance(self.terms, bool)
        if self.terms is not None and (not whole or self.terms < 0):
            raise ValueError(f"terms must be a whole number that is not negative, found {self.terms!r}")

    def highest_powers(self, topology: Topology) -> tuple[int, ...]:
        """The highest power of A in the sum, for each part of the topology: a part in a union is as it is alone."""
        terms = [part.diameter if self.terms is None else self.terms for part in topology.parts]
        return tuple(2 * (1 << (max(n, 1) - 1).bit_length()) - 1 if self.squared else n for n in terms)

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:
        return TruncatedResolvent(topology, weight, self.highest_powers(topology))

    def column_work(self, topology: Topology) -> int:
        return sum(work for _, work in self._parts(topology))

    def mask_work(self, topology: Topology) -> int:
        return sum(part.num_nodes * work for part, work in self._parts(topology))

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        """Columns are as those of masks, which count four times, and computed again for the backward pass.

        Large masks, which are kept for the backward pass, have to be cheaper by far.
        """
        weight = 6 if int((topology.part_sizes**2).sum()) <= _SMALL_MASK else 1
        return weight * self.column_work(topology) * N * P

    def _parts(self, topology: Topology) -> list[tuple[Topology, int]]:
        """Parts, and multiplications for a column of each."""
        parts = zip(topology.parts, self.highest_powers(topology), strict=True)
        return [(part, n * part.num_edges + part.num_nodes) for part, n in parts]


class TruncatedResolvent(Resolvent):
    """``Σ_{k≤n} Aᵏ``, n for each part: by matrix products where these are cheap, by sparse products otherwise.

    Unequal parts are taken one by one: padded to the largest, molecules would take several times as long.
    """

    def __init__(self, topology: Topology, weight: Tensor, powers: tuple[int, ...]):
        super().__init__(topology, weight)
        self.powers = powers

    def solve(self, rhs: Tensor) -> Tensor:
        kernel = compiled.usable(self.weight, rhs) and compiled.fits(self.topology, self.powers, rhs.element_size())
        if self._dense_is_cheaper(rhs.shape[-1], _DENSE_ADVANTAGE if kernel else _DENSE_ADVANTAGE_PLAIN):
            return self._solve_dense(rhs)
        if kernel:
            return compiled.series(self.topology, self.weight, rhs, self.powers)
        return _Truncated.apply(self.weight, rhs, self.topology, self.powers)

    def mix_mask(self, C: Tensor, B: Tensor, V: Tensor) -> Tensor | None:
        sizes = self.topology.part_sizes
        if sizes.size * sizes.max() ** 2 <= 2 * (sizes**2).sum():
            return None
        pieces = zip(*(x.split(sizes.tolist(), dim=-2) for x in (self.mask(), C, B, V)), strict=True)
        return torch.cat([_mix_part(*piece) for piece in pieces], dim=-2)

    def _dense_is_cheaper(self, columns: int, advantage: int) -> bool:
        parts = list(zip(self.topology.parts, self.powers, strict=True))
        dense = sum(2 * n.bit_length() * part.num_nodes**3 for part, n in parts)
        return dense < advantage * columns * sum(n * part.num_edges for part, n in parts)

    def _solve_dense(self, rhs: Tensor) -> Tensor:
        parts = self.topology.parts
        weights = self.weight.split([part.num_edges for part in parts], dim=-1)
        pieces = rhs.split([part.num_nodes for part in parts], dim=-2)
        return torch.cat(
            [_solve_dense(*piece) for piece in zip(parts, weights, pieces, self.powers, strict=True)], dim=-2
        )


def _solve_dense(part: Topology, weight: Tensor, rhs: Tensor, power: int) -> Tensor:
    plan = part.tensors("block_plan", weight.device)
    return join(plan, power_series(dense_blocks(plan, weight), power) @ split(plan, rhs))


def _mix_part(mask: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """``(L ⊙ C Bᵀ) V`` of one part: ``mask [Z·H, S, ≥ S]``, ``C, B [Z, G, S, N]``, ``V [Z, H, S, P]``."""
    Z, G, S, _ = C.shape
    mask = mask[..., :S].view(Z, G, -1, S, S)
    return (mask * (C @ B.mT).unsqueeze(2)).flatten(1, 2) @ V


def power_series(A: Tensor, power: int) -> Tensor:
    """``I + A + … + Aⁿ`` by doubling: ``S(2m) = S(m) + Aᵐ S(m)``, ``S(m+1) = I + A S(m)`` for m terms."""
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    series, raised = unit, A  # one term, and the power that continues it
    for bit in bin(power + 1)[3:]:
        series, raised = series + raised @ series, raised @ raised
        if bit == "1":
            series, raised = unit + A @ series, A @ raised
    return series


def iterate(weight: Tensor, rhs: Tensor, topology: Topology, powers: Sequence[int]) -> Tensor:
    """``Σ_{k≤n} Aᵏ rhs`` as below, with every iterate kept: for derivatives of any order."""
    x, steps = rhs, _Steps(topology, weight, powers)
    for k in range(steps.count):
        x = rhs + spread(topology, steps.masked(weight, k), x)
    return x


class _Truncated(torch.autograd.Function):
    """x_k = b + A x_{k−1}, x_0 = b; adjoint λ_n = g, λ_{k−1} = Aᵀ λ_k, ∂A_ij = Σ_k λ_{k,i} x_{k−1,j}, ∂b = Σ_k λ_k.

    Parts with fewer terms begin later: A is zero for them until then. Of the n iterates √n are kept; the others are
    computed again on the way back.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rhs: Tensor, topology: Topology, powers: tuple[int, ...]) -> Tensor:
        x, b, kept, steps = rhs, rhs.contiguous(), [], _Steps(topology, weight, powers)
        for k in range(steps.count):
            if k % steps.stride == 0:
                kept.append(x)
            x = b + spread(topology, steps.masked(weight, k), x)
        keep(ctx, (weight, rhs, topology, powers), *kept)
        ctx.steps = steps
        return x.clone()

    @staticmethod
    @twice(iterate)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight, rhs, _, _, *kept), topology, steps = ctx.saved_tensors, ctx.others[2], ctx.steps
        flipped = topology.once("flipped", topology.flip)
        on_edges, total, adjoint = torch.zeros_like(weight), grad.clone(), grad
        for first in reversed(range(0, steps.count, steps.stride)):
            last, iterates = min(first + steps.stride, steps.count), [kept[first // steps.stride]]
            for k in range(first, last - 1):
                iterates.append(rhs + spread(topology, steps.masked(weight, k), iterates[-1]))
            for k in reversed(range(first, last)):
                on_edges += steps.masked(edge_products(topology, adjoint, iterates[k - first]), k)
                adjoint = spread(flipped, steps.masked(weight, k), adjoint)
                total += adjoint
        return on_edges, total, None, None


class _Steps:
    """The iterations of a series, and which edges take part in each."""

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


def spread(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    """``A @ x``, edge by edge: weights ``[G, E]``, ``x [G, T, K]``."""
    if compiled.usable(weight, x):
        return compiled.spread(topology, weight, x)
    source, target = topology.tensors("edge_index", x.device)
    message = weight.t().unsqueeze(-1) * x.transpose(0, 1).index_select(0, source)
    flat = message.new_zeros(topology.num_nodes, x.shape[0] * x.shape[2])
    return flat.index_add_(0, target, message.flatten(1)).view(-1, x.shape[0], x.shape[2]).transpose(0, 1)
