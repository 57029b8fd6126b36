"""Undirected paths: the inverse of a tridiagonal matrix is semiseparable, so that two scans apply it.

With ``a_i = A[i, i+1]``, ``b_i = A[i+1, i]`` and pivots d⁺, d⁻ from either end:

    d⁺_0 = 1, d⁺_{i+1} = 1 − a_i b_i/d⁺_i        d⁻_{T−1} = 1, d⁻_i = 1 − a_i b_i/d⁻_{i+1}
    θ_i = 1/(d⁺_i + d⁻_i − 1)        f⁺_i = b_{i−1}/d⁻_i        f⁻_i = a_i/d⁺_i
    L_ij = θ_j Π_{k=j+1..i} f⁺_k (i > j),   θ_j Π_{k=i..j−1} f⁻_k (i < j),   θ_j (i = j)

Semiseparable inverses: Vandebril, Van Barel and Mastronardi, *Matrix Computations and Semiseparable Matrices*, 2008.
"""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.contract import Resolvent, exact_resolvent
from chimera_ssm.ops.mixing import mix_by_mask as mix_terms_by_mask
from chimera_ssm.ops.mixing import scaled
from chimera_ssm.ops.terms import Term
from chimera_ssm.topology import Topology, UndirectedLine


class UndirectedPathResolvent(Resolvent):
    """The resolvent of disjoint undirected paths: a scan forward and a scan backward, minus the diagonal counted twice.

    Attributes:
        growth: the largest pivot, ``[G]``, an array or a tensor; where it is large, the factors are not accurate.
    """

    def __init__(self, topology: Topology, weight: Tensor):
        super().__init__(topology, weight)
        plan = topology.tensors("undirected_paths", weight.device)
        self.nodes = plan.nodes
        self.theta, self.ahead, self.back, self.growth = dispatch.run("path_factors", "tridiagonal", plan, weight)

    def solve(self, rhs: Tensor) -> Tensor:
        b = self.theta.unsqueeze(-1) * self.to_line(rhs, 1)
        lines = zip(_both_ways(self.topology), (self.ahead, self.back), strict=True)
        ahead, back = (exact_resolvent("scan", line, weight).solve(b) for line, weight in lines)
        return self.to_nodes(ahead + back - b, 1)

    def terms(self, term: Term, V: Tensor) -> tuple[list[Term], Tensor]:
        """The two directed lines as terms of a mix, and ``β V``, both in line order."""
        C, B, v = (self.to_line(x, 2) for x in (term.C, term.B, scaled(term, V)))
        theta, *weights = (x.unflatten(0, V.shape[:2]) for x in (self.theta, self.ahead, self.back))
        lines = zip(_both_ways(self.topology), weights, strict=True)
        return [Term(line, weight, C, B, theta, "scan") for line, weight in lines], v

    def to_line(self, x: Tensor, dim: int) -> Tensor:
        """Rows in line order; ``dim`` is the dimension of nodes."""
        return x if self.nodes is None else x.index_select(dim, self.nodes)

    def to_nodes(self, x: Tensor, dim: int) -> Tensor:
        """The reverse of `to_line`."""
        return x if self.nodes is None else torch.empty_like(x).index_copy(dim, self.nodes, x)


def _both_ways(topology: Topology) -> tuple[Topology, ...]:
    return UndirectedLine(topology.num_nodes).dags()


def is_semiseparable(terms: list[Term], V: Tensor) -> bool:
    """Whether there is one term, whose tridiagonal factors are accurate."""
    return len(terms) == 1 and isinstance(terms[0].resolvent, UndirectedPathResolvent)


def mix_by_state(terms: list[Term], V: Tensor) -> Tensor:
    """``(L ⊙ C B̄ᵀ) V`` by two scans."""
    resolvent = _resolvent(terms)
    lines, v = resolvent.terms(terms[0], V)
    scan = dispatch.find("mix_by_state", "scan", lines, v)
    assert scan is not None
    return resolvent.to_nodes(scan.run(lines, v, exclude_diagonal=True), 2)


def mix_by_mask(terms: list[Term], V: Tensor) -> Tensor:
    """``(L ⊙ C B̄ᵀ) V`` through the masks of both lines, minus the diagonal that both contain."""
    resolvent = _resolvent(terms)
    lines, v = resolvent.terms(terms[0], V)
    theta, C, B = lines[0].scale, lines[0].C, lines[0].B
    assert theta is not None
    diagonal = theta * (C * B).sum(-1).repeat_interleave(v.shape[1] // C.shape[1], dim=1)
    return resolvent.to_nodes(mix_terms_by_mask(lines, v).addcmul(diagonal.unsqueeze(-1), v, value=-1), 2)


def _resolvent(terms: list[Term]) -> UndirectedPathResolvent:
    resolvent = terms[0].resolvent
    assert isinstance(resolvent, UndirectedPathResolvent)
    return resolvent
