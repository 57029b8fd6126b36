"""Sparse LU in PyTorch: elimination and substitution level by level."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.ops.contract import Factors
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.sparse_lu.pivoting import pivot_where_needed
from chimera_ssm.ops.spmm.torch import node_major, substitute_levels
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import FactorPlan


def factorize(topology: Topology, weight: Tensor) -> Factors:
    """Factors of I − A, with pivoting for heads that need it."""
    plan = topology.tensors("factor_plan", weight.device)
    return pivot_where_needed(topology, weight, LDU(topology.num_nodes, plan, weight))


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
        substitute_levels(x, self.pairs, first, transpose=False)
        x /= self.pivot.unsqueeze(-1)
        substitute_levels(x, self.pairs, second, transpose=True)
        return x.transpose(0, 1)


OPERATIONS = {"factorize": Operation(factorize)}
