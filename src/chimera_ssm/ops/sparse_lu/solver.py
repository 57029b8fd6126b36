"""`Elimination`: sparse LU without pivoting on a fill-reducing order; undirected lines by two scans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from chimera_ssm.ops import compiled
from chimera_ssm.ops.contract import ExactResolvent, Factors, Resolvent, Solver
from chimera_ssm.ops.dense import PivotedLU
from chimera_ssm.ops.sweep.solver import node_major, scan_mix_work, sweep
from chimera_ssm.ops.tridiagonal.solver import UndirectedPathResolvent
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import FactorPlan
from chimera_ssm.topology.symbolic_lu import TooMuchFill

#: Entries of L + U above which factors are refused: half a gigabyte for each head in float32.
MAX_ENTRIES = 1 << 27
#: Magnitude of entries up to which elimination without pivoting is taken for accurate: rounding errors are relative to
#: it. It is at most 2 where I − A is diagonally dominant.
_GROWTH = 8
#: How much more a multiplication costs in states, which go through memory, than in masks (measured on molecules and
#: planar graphs of 64 to 4,096 nodes, forward and backward, with 4 and 12 heads).
_STATE_PENALTY = 2.5
#: Entries of the factors that take as long as what else a node's states cost: entering, being read, gradients of edges.
_NODE_ENTRIES = 8


@dataclass(frozen=True)
class Elimination(Solver):
    """Exact on any topology whose factors stay sparse, in nnz(L + U) multiplications per right-hand side.

    ``I − A = L D U`` in an order found once for each topology; then a sweep up the elimination tree and one
    down. Trees have no fill. Without pivoting this is stable on acyclic graphs and where I − A is diagonally dominant,
    as with `graph_adjacency` whatever its data, or similar to a positive definite matrix, as with
    `undirected_line_adjacency`. For other weights entries of the factors may grow: heads for which they do are solved
    by dense LU with pivoting, or refused where that would not fit.
    """

    def why_not(self, topology: Topology) -> str | None:
        if topology.undirected_paths is not None:
            return None
        try:
            topology.elimination_plan(MAX_ENTRIES)
        except TooMuchFill as error:
            return (
                f"its factors need at least {error.entries:,} entries, and about {error.filled:,} if they fill in as "
                f"those of a random graph do, {error.filled * 4 / 1e9:.1f} GB for each head in float32; at most "
                f"{MAX_ENTRIES:,} are allowed"
            )
        return None

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:
        if topology.undirected_paths is not None:
            paths = UndirectedPathResolvent(topology, weight)
            if _accurate(paths.growth) or not weight.isfinite().all():
                return paths
        if compiled.usable(weight):
            return CompiledResolvent(topology, weight)
        plan = topology.tensors("factor_plan", weight.device)
        return ExactResolvent(topology, weight, lambda w: pivoted(topology, w, LDU(topology.num_nodes, plan, w)))

    def column_work(self, topology: Topology) -> int:
        if topology.undirected_paths is not None:
            return 2 * topology.num_nodes
        return topology.elimination_plan(MAX_ENTRIES).fill

    def mask_work(self, topology: Topology) -> int:
        """Half of all columns' work on graphs: on the way up the tree a row is zero but for its descendants."""
        return super().mask_work(topology) // (1 if topology.undirected_paths is not None else 2)

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        if topology.undirected_paths is not None:
            return 2 * scan_mix_work(topology.num_nodes, N, P, groups_per_head)
        return _STATE_PENALTY * (self.column_work(topology) + _NODE_ENTRIES * topology.num_nodes) * N * P


class CompiledResolvent(ExactResolvent):
    """A resolvent by compiled kernels, which also mix: with blocks of its columns, or of states, in a cache."""

    def __init__(self, topology: Topology, weight: Tensor):
        super().__init__(topology, weight, lambda w: pivoted(topology, w, compiled.CompiledLDU(topology, w)))

    def mask(self) -> Tensor:
        return self._rows() if isinstance(self.factors, compiled.CompiledLDU) else super().mask()

    def mix_mask(self, C: Tensor, B: Tensor, V: Tensor) -> Tensor | None:
        return self._mix(compiled.lu_mix_mask, C, B, V)

    def mix_states(self, C: Tensor, B: Tensor, V: Tensor) -> Tensor | None:
        return self._mix(compiled.lu_mix_states, C, B, V)

    def _mix(self, mix: Callable[..., Tensor], *tensors: Tensor) -> Tensor | None:
        """By kernels, unless some heads were pivoted."""
        if not isinstance(self.factors, compiled.CompiledLDU):
            return None
        return mix(self.topology, self.factors, self.weight, *tensors)


class SparseFactors(Factors, Protocol):
    """Factors without pivoting.

    Attributes:
        growth: the largest magnitude that entries had during elimination, ``[G, ·]``, an array or a tensor.
    """

    growth: Any


def _accurate(growth: Any) -> bool:
    """Whether elimination with entries up to these magnitudes is accurate; not if one is NaN."""
    return float(growth.max()) <= _GROWTH


def pivoted(topology: Topology, weight: Tensor, factors: SparseFactors) -> Factors:
    """The same factors, with pivoted ones for heads whose entries grew too much; weights that are not finite stay."""
    if _accurate(factors.growth) or topology.is_acyclic:
        return factors
    inaccurate = ~(torch.as_tensor(factors.growth) <= _GROWTH).all(1)
    heads = (inaccurate & weight.isfinite().all(1)).nonzero().squeeze(1)
    if not heads.numel():
        return factors
    plan = topology.tensors("block_plan", weight.device)
    if (entries := plan.shape[0] * plan.shape[1] ** 2) > MAX_ENTRIES:
        raise ValueError(
            f"I − A of {heads.numel()} of {len(weight)} heads needs pivoting, because entries grow beyond {_GROWTH} "
            f"without it, but {topology!r} is too large for that: dense matrices of {entries:,} entries, at most "
            f"{MAX_ENTRIES:,} are allowed; keep the row sums of |A| below one, as the adjacency functions do"
        )
    return PartlyPivoted(factors, heads, PivotedLU(plan, weight[heads]))


class PartlyPivoted:
    """Factors without pivoting, but for some heads, which have others."""

    def __init__(self, most: Factors, heads: Tensor, others: Factors):
        self.most, self.heads, self.others = most, heads, others

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        others = self.others.apply(rhs.index_select(0, self.heads), transpose)
        return self.most.apply(rhs, transpose).index_copy_(0, self.heads, others)


class LDU:
    """Factors of I − A, rows by heads: pivots ``[T, G]``, and −L, −U off their unit diagonals ``[F, G]``.

    So stored, L⁻¹ is a sweep along the plan's pairs and U⁻¹ one against them.
    """

    def __init__(self, num_nodes: int, plan: FactorPlan, weight: Tensor):
        weight = weight.t()
        self.pairs = plan.pairs
        self.pivot = weight.new_ones(num_nodes, weight.shape[1])
        self.pivot[plan.loops[1]] -= weight[plan.loops[0]]
        self.lower, self.upper = weight.new_zeros(2, plan.pairs.source.shape[0], weight.shape[1])
        self.lower[plan.lower[1]] = -weight[plan.lower[0]]
        self.upper[plan.upper[1]] = -weight[plan.upper[0]]
        for first, last, updates in zip(plan.pairs.bounds, plan.pairs.bounds[1:], plan.updates, strict=False):
            self._eliminate(first, last, updates)
        self.growth = self._largest().unsqueeze(1)

    def _largest(self) -> Tensor:
        """The largest magnitude of entries of ``L D``, ``D U`` and ``L D U`` before it is summed, ``[G]``."""
        source = self.pairs.source
        top = torch.ones_like(self.pivot)
        top.scatter_reduce_(0, source.unsqueeze(1).expand_as(self.upper), self.upper.abs(), "amax")
        rows = self.pivot.abs() * top
        return torch.cat([rows, self.lower.abs() * rows.index_select(0, source)]).amax(0)

    def _eliminate(self, first: int, last: int, updates: Tensor) -> None:
        """Eliminate the early nodes of the pairs ``first`` to ``last``, which do not touch each other."""
        pivot = self.pivot[self.pairs.source[first:last]]
        column, row = self.lower[first:last] / pivot, self.upper[first:last]
        self.pivot.index_add_(0, self.pairs.target[first:last], -column * row)
        one, other, into = updates
        self.lower.index_add_(0, into, -column.index_select(0, other) * row.index_select(0, one))
        self.upper.index_add_(0, into, -column.index_select(0, one) * row.index_select(0, other))
        self.lower[first:last] = -column
        self.upper[first:last] = -row / pivot

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``(I − A)⁻¹ @ rhs``, or transposed: the same with L and U exchanged."""
        first, second = (self.upper, self.lower) if transpose else (self.lower, self.upper)
        x = node_major(rhs)
        sweep(x, self.pairs, first, transpose=False)
        x /= self.pivot.unsqueeze(-1)
        sweep(x, self.pairs, second, transpose=True)
        return x.transpose(0, 1)
