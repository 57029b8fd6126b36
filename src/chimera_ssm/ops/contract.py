"""The contract between solvers and the functional interface, and the adjoint that all exact solvers share.

A `Solver` turns a topology and its weights into a `Resolvent`, the operator L = (I − A)⁻¹. In this package all leading
dimensions are one: weights are ``[G, E]``, right-hand sides ``[G, T, K]``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.autograd import not_a_view
from chimera_ssm.ops.broadcasting import without_autocast
from chimera_ssm.topology import Topology

#: Elements of a temporary tensor at most, where a loop goes through blocks.
BLOCK_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Solver(ABC):
    """A way to apply (I − A)⁻¹. Holds options only; everything else belongs to a topology and its weights."""

    def unsupported_reason(self, topology: Topology) -> str | None:
        """Why this solver cannot treat ``topology``; ``None`` if it can."""
        return None

    def algorithm(self, topology: Topology) -> str:
        """The name under which `chimera_ssm.ops.dispatch` lists implementations; empty: only `resolvent` is used."""
        return ""

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:
        """The operator (I − A)⁻¹ for edge weights ``[G, E]``."""
        return exact_resolvent(self.algorithm(topology), topology, weight)

    @abstractmethod
    def column_work(self, topology: Topology) -> int:
        """Multiplications to apply L to one column; the automatic choice compares these."""

    def mask_work(self, topology: Topology) -> int:
        """Multiplications to compute the mask: one column per node of the largest part, unless zeros are skipped."""
        return self.column_work(topology) * int(topology.part_sizes.max())

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        """Multiplications of the state form of a mix, per head."""
        return (self.column_work(topology) + topology.num_nodes) * N * P


class Resolvent(ABC):
    """L = (I − A)⁻¹ of one topology and one set of weights ``[G, E]``; differentiable in both arguments."""

    def __init__(self, topology: Topology, weight: Tensor):
        self.topology = topology
        self.weight = weight

    @abstractmethod
    def solve(self, rhs: Tensor) -> Tensor:
        """``L @ rhs``, ``[G, T, K]``."""

    def mask(self) -> Tensor:
        """Rows of L, each within its own part, ``[G, T, S]`` with S nodes in the largest part."""
        plan = self.topology.tensors("block_plan", self.weight.device)
        _, size = plan.shape
        unit = one_hot(plan.place % size, size).to(self.weight.dtype)
        return self.solve(unit.expand(self.weight.shape[0], -1, -1))


class Factors(Protocol):
    """What an algorithm computes from detached weights. A method ``rows()`` that returns the mask is optional."""

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs``, or ``Lᵀ @ rhs`` with the same factors, ``[G, T, K]``."""
        ...


class ExactResolvent(Resolvent):
    """A resolvent whose gradient is the shared adjoint, with the factors of the forward pass.

    Args:
        topology: T nodes and E edges.
        weight: ``[G, E]``.
        factorize: computes the factors of detached weights, when they are first needed.
    """

    def __init__(self, topology: Topology, weight: Tensor, factorize: Callable[[Tensor], Factors]):
        super().__init__(topology, weight)
        self._factorize = factorize

    @cached_property
    def factors(self) -> Factors:
        """Factors of the detached weights."""
        with torch.no_grad():
            return self._factorize(self.weight.detach())

    def solve(self, rhs: Tensor) -> Tensor:
        return _Solve.apply(self.weight, rhs, self.topology, self.factors, False)

    def mask(self) -> Tensor:
        if not hasattr(self.factors, "rows"):
            return super().mask()
        return _Solve.apply(self.weight, None, self.topology, self.factors, False)


def exact_resolvent(algorithm: str, topology: Topology, weight: Tensor) -> ExactResolvent:
    """The resolvent by an algorithm of `chimera_ssm.ops.dispatch` that offers ``factorize``."""
    return ExactResolvent(topology, weight, lambda w: dispatch.run("factorize", algorithm, topology, w))


class _Solve(torch.autograd.Function):
    """x = L b and its adjoint, on edges only: λ = Lᵀ g, ∂b = λ, ∂A_ij = λ_i · x_j.

    The backward pass calls the function itself, transposed, so that it can be differentiated again. Without b the
    result is the mask L, from factors with a method ``rows()``.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, rhs: Tensor | None, topology: Topology, factors: Any, transpose: bool
    ) -> Tensor:
        x = not_a_view(factors.rows() if rhs is None else factors.apply(rhs.detach(), transpose))
        ctx.save_for_backward(weight, x)
        ctx.topology, ctx.factors, ctx.transpose = topology, factors, transpose
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        weight, x = ctx.saved_tensors
        with without_autocast(grad):
            adjoint = _Solve.apply(weight, grad, ctx.topology, ctx.factors, not ctx.transpose)
            on_edges = None
            if ctx.needs_input_grad[0]:
                at_target, at_source = (x, adjoint) if ctx.transpose else (adjoint, x)
                on_edges = edge_products(ctx.topology, at_target, at_source)
        return on_edges, adjoint if ctx.needs_input_grad[1] else None, None, None, None


def edge_products(topology: Topology, at_target: Tensor, at_source: Tensor) -> Tensor:
    """``Σ_k at_target[:, target[e], k] · at_source[:, source[e], k]``, ``[G, E]``, a block of edges at a time."""
    source, target = topology.tensors("edge_index", at_target.device)
    block = max(1, BLOCK_ELEMENTS // max(1, at_target.shape[0] * at_target.shape[2]))
    products = [
        (at_target.index_select(1, t) * at_source.index_select(1, s)).sum(-1)
        for s, t in zip(source.split(block), target.split(block), strict=True)
    ]
    return torch.cat(products, dim=1)
