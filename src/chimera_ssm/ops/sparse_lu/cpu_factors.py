"""Factors of sparse LU by CPU kernels, and solves with them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.cpu.progress import progress
from chimera_ssm.ops.autograd import arrays_of, empty, flatten
from chimera_ssm.ops.contract import ExactResolvent
from chimera_ssm.ops.sparse_lu.kernels import LANES, factorize, invert, solve
from chimera_ssm.ops.sparse_lu.plan import lu_plan
from chimera_ssm.ops.terms import Term
from chimera_ssm.topology import Topology

#: Elements of a block of columns: half of a second-level cache of half a megabyte in float32.
BLOCK_ELEMENTS = 1 << 16


class LDU:
    """Factors of I − A for weights ``[G, E]``; −L, −U off their unit diagonals ``[G, F]``, and D⁻¹ ``[G, T]``.

    ``growth [G, parts]`` is the largest magnitude that entries had during elimination.
    """

    def __init__(self, topology: Topology, weight: Tensor):
        self.plan = topology.cached(lu_plan)
        G, F = weight.shape[0], self.plan.lower_column.size
        self.lower, self.upper, self.inverse = (empty(G, n, like=weight) for n in (F, F, topology.num_nodes))
        parts = self.plan.part.size - 1
        tasks = parts * -(-G // LANES)
        arrays = arrays_of(weight, self.lower, self.upper, self.inverse)
        self.growth = np.empty((G, parts), arrays[0].dtype)
        with progress("factorizing I − A", topology.num_nodes):
            threads.run(factorize, tasks, self.plan, *arrays, self.growth, work=32 * tasks * F)

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``(I − A)⁻¹ @ rhs``, or transposed: the same with L and U exchanged; ``[G, T, K]``."""
        ahead, back = self.transposed() if transpose else (self.lower, self.upper)
        G, T, K = rhs.shape
        x = empty(G, T, K, like=rhs)
        if x.numel() == 0:
            return x
        parts = self.plan.part.size - 1
        tile = 16 if K <= 16 else 32
        width = min(-(-K // tile) * tile, max(32, BLOCK_ELEMENTS // self.plan.largest // 32 * 32))
        tasks = G * parts * -(-K // width)
        flat, strides = flatten(rhs)
        threads.run(
            solve, tasks, width, self.plan, *arrays_of(ahead, back, self.inverse, flat), *strides, *arrays_of(x),
            work=G * K * (T + 2 * ahead.shape[1]),
        )  # fmt: skip
        return x

    def rows(self) -> Tensor:
        """Rows of (I − A)⁻¹ within each part, ``[G, T, S]`` with S nodes in the largest part."""
        (G, T), S, parts = self.inverse.shape, self.plan.largest, self.plan.part.size - 1
        x = empty(G, T, S, like=self.inverse)
        threads.run(invert, G * parts, self.plan, *arrays_of(self.lower, self.upper, self.inverse, x),
            work=S * G * (T + 2 * self.lower.shape[1]))  # fmt: skip
        return x

    def transposed(self) -> tuple[Tensor, Tensor]:
        """−Uᵀ and −Lᵀ, row by row."""
        rows = [torch.from_numpy(x) for x in (self.plan.upper_pair, self.plan.lower_pair)]
        return self.upper.index_select(1, rows[0]), self.lower.index_select(1, rows[1])


def factors_of(term: Term) -> LDU:
    """The factors of a term for which `has_factors` holds."""
    resolvent = term.resolvent
    assert isinstance(resolvent, ExactResolvent)
    assert isinstance(resolvent.factors, LDU)
    return resolvent.factors


def has_factors(terms: list[Term], V: Tensor) -> bool:
    """Whether there is one term, no head of which had to be pivoted."""
    resolvent = terms[0].resolvent if len(terms) == 1 else None
    return isinstance(resolvent, ExactResolvent) and isinstance(resolvent.factors, LDU)
