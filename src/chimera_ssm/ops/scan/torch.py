"""Directed lines: the recurrence x_t = a_t x_{t−1} + b_t in chunks of matrix products.

The mask of a chunk is made of products of weights, never of exponentials of sums of logarithms, so that
weights may be zero or negative.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.ops.contract import ExactResolvent
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.terms import Term, pack_terms
from chimera_ssm.ops.work import CHUNK
from chimera_ssm.topology import Line, Topology
from chimera_ssm.topology.plans import PathPlan


def chunk_mask(a: Tensor) -> Tensor:
    """``L[i, j] = Π_{j<k≤i} a_k`` for i ≥ j, else 0: ``[..., Q]`` → ``[..., Q, Q]``."""
    size = a.shape[-1]
    ones = torch.ones(size, size, dtype=a.dtype, device=a.device)
    return torch.where(ones.tril(-1).bool(), a.unsqueeze(-1), ones).cumprod(-2).tril()


class Scan:
    """Factors of a line in line order: masks of its chunks, and the line of the chunks themselves.

    Args:
        a: weight that enters each place from the one before, ``[G, T]``; ``a[:, 0]`` enters from nowhere.
    """

    def __init__(self, a: Tensor):
        self.length = a.shape[1]
        a = to_chunks(a.unsqueeze(-1), CHUNK).squeeze(-1)
        self.inner = chunk_mask(a)
        self.into = self.inner[..., 0] * a[..., :1]
        self.chunks = Scan(self.into[..., -1]) if a.shape[1] > 1 else None

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``x_t = a_t x_{t−1} + b_t``, or transposed ``x_t = a_{t+1} x_{t+1} + b_t``, ``[G, T, K]``."""
        b = to_chunks(rhs, CHUNK)
        if self.chunks is None:
            x = (self.inner.mT if transpose else self.inner) @ b
        elif transpose:
            left = torch.einsum("gnq,gnqk->gnk", self.into, b)
            carried = self.chunks.apply(pad(left[:, 1:], (0, 0, 0, 1)), transpose=True)
            x = self.inner.mT @ b + self.inner[..., -1, :, None] * carried.unsqueeze(2)
        else:
            x = self.inner @ b
            ends = self.chunks.apply(x[:, :, -1], transpose=False)
            x = x + self.into.unsqueeze(-1) * pad(ends[:, :-1], (0, 0, 1, 0)).unsqueeze(2)
        return x.flatten(1, 2)[:, : self.length]


class PathFactors:
    """A `Scan` of disjoint directed paths whose nodes may be numbered in any order."""

    def __init__(self, plan: PathPlan, weight: Tensor):
        self.nodes = plan.nodes
        self.scan = Scan(pad(weight, (0, 1)).index_select(1, plan.ahead))

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        if self.nodes is None:
            return self.scan.apply(rhs, transpose)
        x = self.scan.apply(rhs.index_select(1, self.nodes), transpose)
        return torch.empty_like(x).index_copy_(1, self.nodes, x)


def factorize(topology: Topology, weight: Tensor) -> PathFactors:
    """Factors of disjoint directed paths."""
    return PathFactors(topology.tensors("directed_paths", weight.device), weight)


def mix_by_state(terms: list[Term], V: Tensor, exclude_diagonal: bool = False) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``; if ``exclude_diagonal``, all terms but the first without the diagonal of L."""
    y = [_mix_path(term, V) for term in terms]
    if exclude_diagonal:
        y += [-diagonal_term(term, V) for term in terms[1:]]
    return sum(y[1:], start=y[0])


def mix_with_states(term: Term, V: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mix of directed lines, one for each part, with states ``[Z, H, parts, N, P]`` that enter and leave them.

        y_t += begin_t C_tᵀ h_in        h_out = Σ_t end_t B̄_t v_tᵀ + begin_last h_in

    with ``begin_t = Π_{k≤t} a_k`` and ``end_t = Π_{k>t} a_k`` over the nodes of a part, without the first of them.
    """
    Z, G = term.C.shape[:2]
    v = V if term.scale is None else term.scale.unsqueeze(-1) * V
    first, last = (t.cached(_first_nodes, device=V.device).to(V.dtype) for t in (term.topology, term.topology.flip()))
    begin, end = (_products(t, term.weight, x) for t, x in ((term.topology, first), (term.topology.flip(), last)))
    y, leaving = _mix_path(term, V), []
    sizes = term.topology.part_sizes.tolist()
    pieces = zip(*(x.split(sizes, 2) for x in (term.C, term.B, begin, end, v)), strict=True)
    added = []
    for k, (C, B, before, after, values) in enumerate(pieces):
        C, B = C.unsqueeze(2), B.unsqueeze(2)
        state = B.mT @ (after * values).unflatten(1, (G, -1))
        if initial is not None:
            entering = initial[:, :, k].unflatten(1, (G, -1))
            added.append(before * (C @ entering).flatten(1, 2))
            whole = (before.squeeze(-1) * last.split(sizes)[k]).sum(-1).view(Z, G, -1, 1, 1)
            state = state + whole * entering
        leaving.append(state.flatten(1, 2))
    return y + torch.cat(added, 2) if added else y, torch.stack(leaving, 2)


def mix_tensors(
    V: Tensor, initial: Tensor | None, topologies: list[Topology], exclude_diagonal: bool, *tensors: Tensor
) -> tuple[Tensor, Tensor | None]:
    """`mix_by_state` or `mix_with_states` of tensors as `unpack_terms` returns them, and the states that leave."""
    terms = pack_terms("scan", topologies, tensors)
    if initial is None:
        return mix_by_state(terms, V, exclude_diagonal), None
    return mix_with_states(terms[0], V, initial)


def _products(topology: Topology, weight: Tensor, first: Tensor) -> Tensor:
    """Products of the weights from the first node of each part on, ``[Z, H, T, 1]``."""
    line = ExactResolvent(topology, weight.flatten(0, 1), lambda w: factorize(topology, w))
    rhs = first.view(1, -1, 1).expand(line.weight.shape[0], -1, -1)
    return line.solve(rhs).view(*weight.shape[:2], -1, 1)


def _first_nodes(topology: Topology) -> np.ndarray:
    """1 at the first node of each path, else 0, ``[T]``."""
    plan, first = topology.directed_paths, np.zeros(topology.num_nodes)
    assert plan is not None
    nodes = np.arange(topology.num_nodes) if plan.nodes is None else plan.nodes
    first[nodes[plan.ahead == topology.num_edges]] = 1
    return first


def diagonal_term(term: Term, V: Tensor) -> Tensor:
    """``(C_i · B̄_i) V_i``: the influence of each node on itself where the diagonal of L is 1."""
    own = (term.C * term.B).sum(-1).repeat_interleave(V.shape[1] // term.C.shape[1], dim=1)
    own = own if term.scale is None else term.scale * own
    return own.unsqueeze(-1) * V


def _mix_path(term: Term, V: Tensor) -> Tensor:
    plan = term.topology.tensors("directed_paths", V.device)
    a = pad(term.weight, (0, 1))[..., plan.ahead]
    v = V if term.scale is None else term.scale.unsqueeze(-1) * V
    if plan.nodes is None:
        return line_mix(a, term.C, term.B, v)
    y = line_mix(a, *(x.index_select(2, plan.nodes) for x in (term.C, term.B, v)))
    return torch.empty_like(y).index_copy(2, plan.nodes, y)


def line_mix(a: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """``(L ⊙ C Bᵀ) V`` on a line in line order: masks within chunks, states between them.

    ``a [Z, H, T]`` as in `Scan`, ``C, B [Z, G, T, N]``, ``V [Z, H, T, P]`` → ``[Z, H, T, P]``. The backward
    pass needs T·Q numbers per head and T/Q states.
    """
    (Z, H, T), (N, P), G = a.shape, (C.shape[-1], V.shape[-1]), C.shape[1]
    size = min(CHUNK, T)
    a = to_chunks(a.reshape(Z * H, T, 1), size).squeeze(-1)
    inner = line_resolvent(a.flatten(0, 1)).mask().view(Z, G, H // G, -1, size, size)
    a = a.view(inner.shape[:-1])
    C, B = (to_chunks(x.flatten(0, 1), size).view(Z, G, 1, -1, size, N) for x in (C, B))
    V = to_chunks(V.flatten(0, 1), size).view(Z, G, H // G, -1, size, P)
    y = (inner * (C @ B.mT)) @ V
    if (chunks := a.shape[3]) > 1:
        into = inner[..., 0] * a[..., :1]
        left = B.mT @ (inner[..., -1, :, None] * V)
        line = line_resolvent(into[..., -1].reshape(Z * H, chunks))
        ends = line.solve(left.reshape(Z * H, chunks, N * P)).view(left.shape)
        y = y + into.unsqueeze(-1) * (C @ pad(ends[..., :-1, :, :], (0, 0, 0, 0, 1, 0)))
    return y.reshape(Z, H, chunks * size, P)[:, :, :T]


def line_resolvent(a: Tensor) -> ExactResolvent:
    """The resolvent of a line in line order, from ``a [G, T]`` as in `Scan`; differentiable in a."""
    return ExactResolvent(Line(a.shape[1]), a[:, 1:], lambda _: Scan(a.detach()))


def to_chunks(x: Tensor, size: int) -> Tensor:
    """``[G, T, K]`` → ``[G, T/Q, Q, K]``, zeros added at the end."""
    x = pad(x, (0, 0, 0, -x.shape[1] % min(size, x.shape[1])))
    return x.unflatten(1, (-1, min(size, x.shape[1])))


OPERATIONS = {
    "factorize": Operation(factorize),
    "mix_by_state": Operation(mix_by_state),
    "mix_with_states": Operation(mix_with_states),
}
