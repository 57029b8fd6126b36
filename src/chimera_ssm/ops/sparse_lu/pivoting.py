"""Heads that need pivoting: found by the growth of entries during elimination, solved by dense LU."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.contract import Factors
from chimera_ssm.topology import Topology

#: Entries of L + U above which factors are refused: half a gigabyte for each head in float32.
MAX_ENTRIES = 1 << 27
#: Magnitude of entries up to which elimination without pivoting counts as accurate: rounding errors are relative to it.
#: It is at most 2 where I − A is diagonally dominant.
_GROWTH = 8


class SparseFactors(Factors, Protocol):
    """Factors without pivoting.

    Attributes:
        growth: the largest magnitude that entries had during elimination, ``[G, ·]``, an array or a tensor.
    """

    growth: Any


def is_accurate(growth: Any) -> bool:
    """Whether elimination with entries up to these magnitudes is accurate; not if one is NaN."""
    return float(growth.max()) <= _GROWTH


def pivot_where_needed(topology: Topology, weight: Tensor, factors: SparseFactors) -> Factors:
    """The factors, with pivoted ones for heads whose entries grew too much; weights that are not finite pass."""
    if is_accurate(factors.growth) or topology.is_acyclic:
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
    return PartlyPivoted(factors, heads, dispatch.run("factorize", "dense", topology, weight[heads]))


class PartlyPivoted:
    """Factors without pivoting, except for some heads, which have pivoted ones."""

    def __init__(self, most: Factors, heads: Tensor, others: Factors):
        self.most, self.heads, self.others = most, heads, others

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        others = self.others.apply(rhs.index_select(0, self.heads), transpose)
        return self.most.apply(rhs, transpose).index_copy_(0, self.heads, others)
