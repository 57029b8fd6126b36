"""Edge weights of general graphs, normalised row by row (paper, section 3.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.adjacency.injection import inject
from chimera_ssm.adjacency.steps import (
    Adjacency,
    at,
    check_edge_steps,
    check_edge_weight,
    check_mask,
    check_steps,
    edges_alive,
    ends,
    sum_at,
)
from chimera_ssm.topology import Topology

NORMALIZERS = ("row", "column")


def graph_adjacency(
    topology: Topology,
    delta: Tensor,
    psi: Tensor,
    *,
    delta_source: Tensor | None = None,
    edge_step: Tensor | None = None,
    gamma: float = 0.95,
    normalize: str = "row",
    injection: str | Tensor = "step",
    node_mask: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Adjacency:
    """Selective weights on any graph, row sums (or column sums) below γ.

        A_ij = exp(−(Δ¹_i + Δ²_j + Δ'_ij) / 3)        (the mean of two where there is no edge step)
        A[i, :] ← γ A[i, :] / (Σ_j A_ij + exp(−Ψ_i))        (w_ij A_ij in place of A_ij where edges have weights)
        "step": B̄_i = Δ¹_i B_i        "hold": B̄_i = (1 − Σ_j A_ij) B_i

    I − A is a strictly diagonally dominant M-matrix: L exists, is not negative and ``‖L‖∞ ≤ 1/(1−γ)``. It is
    computed as γ times a softmax over the row's exponents and −Ψ_i, which is finite for steps of any size.

    The authors' code normalises columns instead, over the edges that leave a node, which bounds ``‖L‖₁``:

        A[:, j] ← A[:, j] / (max(1, Σ_i A_ij + exp(−Ψ_j)) + 1/γ − 1)

    Args:
        topology: any topology.
        delta: Δ¹ > 0, ``[..., H, T]``.
        psi: Ψ, ``[..., H, T]``.
        delta_source: Δ² > 0, ``[..., H, T]``; Δ¹ if omitted, the paper's form without direction.
        edge_step: Δ' > 0 of each edge, ``[..., H, E]``.
        gamma: bound on the row or column sums, between 0 and 1.
        normalize: ``"row"`` or ``"column"``.
        injection: ``"step"``, ``"hold"`` or β ``[..., H, T]``, see `chimera_ssm.adjacency.injection`.
        node_mask: True where there is a node, ``[..., T]``. A masked node loses its edges and injects nothing.
        edge_weight: w ≥ 0, ``[..., H, E]``; an edge of weight zero has the effect of no edge.
    """
    check_gamma(gamma, 1.0)
    if normalize not in NORMALIZERS:
        raise ValueError(f"normalize must be one of {NORMALIZERS}, found {normalize!r}")
    delta, psi = check_steps("delta", delta, topology), check_steps("psi", psi, topology)
    delta_source = delta if delta_source is None else check_steps("delta_source", delta_source, topology)
    node_mask = check_mask(node_mask, topology)
    edge_weight = check_edge_weight(edge_weight, topology)
    source, target = ends(topology, delta.device)
    steps = [at(delta, target), at(delta_source, source)]
    if edge_step is not None:
        steps.append(check_edge_steps(edge_step, topology))
    exponent = -torch.stack(torch.broadcast_tensors(*steps)).mean(0)
    if (alive := edges_alive(topology, node_mask)) is not None:
        exponent = exponent.masked_fill(~alive, -torch.inf)
    if normalize == "row":
        weight = gamma * _row_softmax(exponent, -psi, target, edge_weight)
    else:
        weight = torch.exp(exponent) if edge_weight is None else edge_weight * torch.exp(exponent)
        total = sum_at(weight, source, topology.num_nodes) + torch.exp(-psi)
        weight = weight / at(total.clamp(min=1) + (1 / gamma - 1), source)
    return Adjacency(weight, inject(injection, lambda: delta, topology, weight, node_mask, normalize == "row"))


def _row_softmax(exponent: Tensor, rest: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """Softmax, weighted, over each row's edges and one more entry ``rest``, which is then dropped, ``[..., E]``."""
    given = [exponent, rest] if weight is None else [exponent, rest, weight]
    lead = torch.broadcast_shapes(*(x.shape[:-1] for x in given))
    dtype = torch.promote_types(exponent.dtype, rest.dtype)
    exponent, rest = (x.to(dtype).expand(*lead, -1) for x in (exponent, rest))
    index = target.expand_as(exponent)
    if weight is None:
        top = rest.detach().scatter_reduce(-1, index, exponent.detach(), "amax")
        share = torch.exp(exponent - at(top, target))
    else:
        counted = exponent.detach().masked_fill(weight == 0, -torch.inf)
        top = rest.detach().scatter_reduce(-1, index, counted, "amax")
        # An edge of weight zero may exceed the maximum of the others: its product is zero, and must not be inf · 0.
        share = weight * torch.exp((exponent - at(top, target)).clamp(max=60))
    return share / at(sum_at(share, target, rest.shape[-1]) + torch.exp(rest - top), target)


def check_gamma(gamma: float, limit: float) -> None:
    """γ lies strictly between 0 and 1, and not above ``limit``."""
    if not 0 < gamma < 1 or gamma > limit:
        bound = "0 < γ < 1" if limit == 1.0 else f"0 < γ ≤ {limit}"
        raise ValueError(f"gamma must satisfy {bound}, found {gamma}: the series of A must converge")
