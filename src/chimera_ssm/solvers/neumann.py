"""`Neumann`: the truncated series Σ_{k≤n} Aᵏ, with the gradient of what it computes (paper, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.solvers import compiled
from chimera_ssm.solvers.base import Resolvent, Solver, edge_products
from chimera_ssm.solvers.blocks import dense_blocks, join, split
from chimera_ssm.topology import Topology

#: How many multiplications of a matrix product cost as much as one of a sparse product.
_DENSE_ADVANTAGE = 16


@dataclass(frozen=True)
class Neumann(Solver):
    """An approximation on any topology: exactly the first terms of ``I + A + A² + …``.

    With terms up to the diameter every node hears from every node that can reach it; with terms up to the
    longest path of an acyclic topology the series is complete.

    Args:
        terms: highest power of A; the diameter of the topology if omitted.
        squared: the paper's product (I + A)(I + A²)…(I + Aᵖ), p the least power of two that is not below
            ``terms``: the same series, up to the power 2p − 1.
    """

    terms: int | None = None
    squared: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.terms, int) and not isinstance(self.terms, bool)
        if self.terms is not None and (not whole or self.terms < 0):
            raise ValueError(f"terms must be a whole number that is not negative, found {self.terms!r}")

    def highest_power(self, topology: Topology) -> int:
        """The highest power of A in the sum for this topology."""
        terms = topology.diameter if self.terms is None else self.terms
        return 2 * (1 << (max(terms, 1) - 1).bit_length()) - 1 if self.squared else terms

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:
        return TruncatedResolvent(topology, weight, self.highest_power(topology))

    def column_work(self, topology: Topology) -> int:
        return self.highest_power(topology) * topology.num_edges + topology.num_nodes


class TruncatedResolvent(Resolvent):
    """``Σ_{k≤n} Aᵏ``: by matrix products where these are cheap, by sparse products otherwise."""

    def __init__(self, topology: Topology, weight: Tensor, power: int):
        super().__init__(topology, weight)
        self.power = power

    def solve(self, rhs: Tensor) -> Tensor:
        if self._dense_is_cheaper(rhs.shape[-1]):
            plan = self.topology.tensors("block_plan", self.weight.device)
            return join(plan, power_series(dense_blocks(plan, self.weight), self.power) @ split(plan, rhs))
        return _Truncated.apply(self.weight, rhs, self.topology, self.power)

    def _dense_is_cheaper(self, columns: int) -> bool:
        products = 2 * self.power.bit_length()
        dense = products * int((self.topology.part_sizes**3).sum()) / _DENSE_ADVANTAGE
        return dense < self.power * self.topology.num_edges * columns


def power_series(A: Tensor, power: int) -> Tensor:
    """``I + A + … + Aⁿ`` by doubling: ``S(2m) = S(m) + Aᵐ S(m)``, ``S(m+1) = I + A S(m)`` for m terms."""
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    series, raised = unit, A  # one term, and the power that continues it
    for bit in bin(power + 1)[3:]:
        series, raised = series + raised @ series, raised @ raised
        if bit == "1":
            series, raised = unit + A @ series, A @ raised
    return series


class _Truncated(torch.autograd.Function):
    """x_k = b + A x_{k−1}, x_0 = b; adjoint λ_n = g, λ_{k−1} = Aᵀ λ_k, ∂A_ij = Σ_k λ_{k,i} x_{k−1,j}, ∂b = Σ_k λ_k.

    Of the n iterates √n are kept; the others are computed again on the way back.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rhs: Tensor, topology: Topology, power: int) -> Tensor:
        x, rhs, kept = rhs, rhs.contiguous(), []
        for k in range(power):
            if k % (isqrt(power) + 1) == 0:
                kept.append(x)
            x = rhs + spread(topology, weight, x)
        ctx.save_for_backward(weight, rhs, *kept)
        ctx.topology, ctx.power = topology, power
        return x.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, rhs, *kept = ctx.saved_tensors
        topology, stride = ctx.topology, isqrt(ctx.power) + 1
        flipped = topology.once("flipped", topology.flip)
        on_edges, total, adjoint = torch.zeros_like(weight), grad.clone(), grad
        for first in reversed(range(0, ctx.power, stride)):
            iterates = [kept[first // stride]]
            for _ in range(first + 1, min(first + stride, ctx.power)):
                iterates.append(rhs + spread(topology, weight, iterates[-1]))
            for x in reversed(iterates):
                on_edges += edge_products(topology, adjoint, x)
                adjoint = spread(flipped, weight, adjoint)
                total += adjoint
        return on_edges, total, None, None


def spread(topology: Topology, weight: Tensor, x: Tensor) -> Tensor:
    """``A @ x``, edge by edge: weights ``[G, E]``, ``x [G, T, K]``."""
    if compiled.usable(weight, x):
        return compiled.spread(topology, weight, x)
    source, target = topology.tensors("edge_index", x.device)
    message = weight.t().unsqueeze(-1) * x.transpose(0, 1).index_select(0, source)
    flat = message.new_zeros(topology.num_nodes, x.shape[0] * x.shape[2])
    return flat.index_add_(0, target, message.flatten(1)).view(-1, x.shape[0], x.shape[2]).transpose(0, 1)
