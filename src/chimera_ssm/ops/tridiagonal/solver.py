"""Undirected lines: the inverse of a tridiagonal matrix is semiseparable, so that two scans apply it.

With ``a_i = A[i, i+1]``, ``b_i = A[i+1, i]`` and pivots d⁺, d⁻ from either end (see `pivots`):

    θ_i = 1/(d⁺_i + d⁻_i − 1)        f⁺_i = b_{i−1}/d⁻_i        f⁻_i = a_i/d⁺_i
    L_ij = θ_j Π_{k=j+1..i} f⁺_k (i > j),   θ_j Π_{k=i..j−1} f⁻_k (i < j),   θ_j (i = j)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.ops import compiled
from chimera_ssm.ops.contract import Resolvent
from chimera_ssm.ops.mixing import Term, mix_by_mask, mix_by_states
from chimera_ssm.ops.scan.torch import PathResolvent, line_resolvent, to_chunks
from chimera_ssm.ops.sweep.solver import Sweep
from chimera_ssm.topology import Line, Topology, UndirectedLine
from chimera_ssm.topology.plans import PathPlan

#: Pivots are at least a half, so that products of this many stay far from underflow in float64.
_LONGEST_PRODUCT = 256


class UndirectedPathResolvent(Resolvent):
    """The resolvent of disjoint undirected paths: a scan ahead, a scan back, less what both count.

    ``growth [G]``, an array or a tensor, is the largest pivot: where it is large, the factors are not accurate.
    """

    def __init__(self, topology: Topology, weight: Tensor):
        super().__init__(topology, weight)
        plan = topology.tensors("undirected_paths", weight.device)
        self.nodes = plan.nodes
        factors = compiled.path_factors if compiled.usable(weight) else path_factors
        self.theta, self.ahead, self.back, self.growth = factors(plan, weight)

    def solve(self, rhs: Tensor) -> Tensor:
        b = self.theta.unsqueeze(-1) * self._lay_out(rhs, 1)
        ahead, back = (line.solve(b) for line in self._lines())
        return self._put_back(ahead + back - b, 1)

    def mix_states(self, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
        if not compiled.usable(V):
            return self._mix(mix_by_states, C, B, V)
        C, B, V = (self._lay_out(x, 2) for x in (C, B, V))
        theta, *weights = (x.unflatten(0, V.shape[:2]) for x in (self.theta, self.ahead, self.back))
        lines: list[Topology] = [*_both_ways(self.topology.num_nodes)]
        return self._put_back(compiled.mix_by_chunks(lines, weights, [C] * 2, [B] * 2, V, [theta] * 2, True), 2)

    def mix_mask(self, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
        return self._mix(mix_by_mask, C, B, V)

    def _mix(self, form: Callable[[list[Term], Tensor], Tensor], C: Tensor, B: Tensor, V: Tensor) -> Tensor:
        """Both lines, less what both count: a node's own share."""
        C, B, V = (self._lay_out(x, 2) for x in (C, B, V))
        theta = self.theta.unflatten(0, V.shape[:2])
        lines = zip(_both_ways(self.topology.num_nodes), (self.ahead, self.back), strict=True)
        both = form([Term(Sweep(), line, w.unflatten(0, V.shape[:2]), C, B, theta) for line, w in lines], V)
        own = theta * (C * B).sum(-1).repeat_interleave(V.shape[1] // C.shape[1], dim=1)
        return self._put_back(both.addcmul(own.unsqueeze(-1), V, value=-1), 2)

    def _lines(self) -> tuple[PathResolvent, PathResolvent]:
        ahead, back = _both_ways(self.topology.num_nodes)
        return PathResolvent(ahead, self.ahead), PathResolvent(back, self.back)

    def _lay_out(self, x: Tensor, dim: int) -> Tensor:
        return x if self.nodes is None else x.index_select(dim, self.nodes)

    def _put_back(self, x: Tensor, dim: int) -> Tensor:
        return x if self.nodes is None else torch.empty_like(x).index_copy(dim, self.nodes, x)


@lru_cache(maxsize=64)
def _both_ways(num_nodes: int) -> tuple[Line, Line]:
    return UndirectedLine(num_nodes).dags()


def path_factors(plan: PathPlan, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """θ ``[G, T]``, f⁺ and f⁻ ``[G, T − 1]``, and the largest pivot ``[G]`` from weights ``[G, E]``, in line order."""
    padded = pad(weight, (0, 1)).to(torch.float32 if weight.device.type == "mps" else torch.float64)
    b, a = padded[:, plan.ahead][:, 1:], padded[:, plan.back][:, :-1]
    ahead, back = pivots(a * b), pivots((a * b).flip(1)).flip(1)
    factors = 1 / (ahead + back - 1), b / back[:, 1:], a / ahead[:, :-1]
    theta, fore, aft = (x.to(weight.dtype) for x in factors)
    with torch.no_grad():
        growth = torch.maximum(_largest(ahead, a * b), _largest(back.flip(1), (a * b).flip(1)))
    return theta, fore, aft, growth


def _largest(d: Tensor, p: Tensor) -> Tensor:
    """The largest of pivots ``[G, T]``, infinite where they are not those of ``p [G, T−1]``: see `pivots`."""
    expected = 1 - p / d[:, :-1]
    accurate = (d[:, 1:] - expected).abs() <= 4096 * torch.finfo(d.dtype).eps * (1 + expected.abs())
    return d.abs().amax(1).masked_fill(~accurate.all(1), torch.inf)


def pivots(p: Tensor) -> Tensor:
    """``d_0 = 1, d_{i+1} = 1 − p_i / d_i``: ``[G, T−1]`` → ``[G, T]``, differentiable."""
    return _Pivots.apply(p)


class _Pivots(torch.autograd.Function):
    """Adjoint: ``D_i = g_i + (p_i/d_i²) D_{i+1}``, a line run backward, then ``∂p_i = −D_{i+1}/d_i``."""

    @staticmethod
    def forward(ctx: Any, p: Tensor) -> Tensor:
        d = _continued_fraction(p.detach())
        ctx.save_for_backward(p, d)
        return d

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,) = grads
        p, d = ctx.saved_tensors
        before = d[:, :-1]
        enters = pad((p / before**2).flip(1), (1, 0))
        with torch.autocast(grad.device.type, enabled=False):
            D = line_resolvent(enters).solve(grad.flip(1).unsqueeze(-1)).squeeze(-1).flip(1)
        return -D[:, 1:] / before


def _continued_fraction(p: Tensor) -> Tensor:
    """The pivots as ratios u/v of a linear recurrence ``(u, v) ← (u − p v, u)``, whose steps compose.

    Chunks are composed side by side, then joined one after the other: about 2√T steps instead of T.
    """
    G, links = p.shape
    d = p.new_ones(G, 1)
    if not links:
        return d
    p = to_chunks(p.unsqueeze(-1), min(_LONGEST_PRODUCT, isqrt(links) + 1)).squeeze(-1)
    one, zero = torch.ones_like(p[..., 0]), torch.zeros_like(p[..., 0])
    u, v = (
        torch.stack([one, zero]),
        torch.stack([zero, one]),
    )  # coefficients of d and 1 in the numerator, below it
    steps = []
    for p_k in p.unbind(-1):
        u, v = u - p_k * v, u
        steps.append(torch.cat([u, v]))
    pieces = [d]
    for u_d, u_1, v_d, v_1 in torch.stack(steps, dim=-1).unbind(2):
        pieces.append((u_d * d + u_1) / (v_d * d + v_1))
        d = pieces[-1][:, -1:]
    return torch.cat(pieces, dim=1)[:, : links + 1]
