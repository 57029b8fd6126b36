"""Edge weights of the undirected line, normalised link by link (paper, appendix)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from chimera_ssm.adjacency.graph import check_gamma
from chimera_ssm.adjacency.injection import inject
from chimera_ssm.adjacency.steps import Adjacency, at, check_mask, check_steps, edges_alive, ends
from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import Topology, UndirectedLine

_LOG_PSI_MIN = math.log(1e-4)
GAMMA_MAX = 0.999


def undirected_line_adjacency(
    topology: Topology,
    delta: Tensor,
    psi: Tensor,
    *,
    delta_source: Tensor | None = None,
    gamma: float = 0.99,
    injection: str | Tensor = "step",
    node_mask: Tensor | None = None,
) -> Adjacency:
    """Selective weights on an undirected line, the product over each two-cycle below γ²/4.

    For the link between i and i+1, with ``a = exp(−(Δ¹_i + Δ²_{i+1})/2)``, ``b`` the reverse and
    ``ψ = max(exp(−(Ψ_i + Ψ_{i+1})/2), 1e-4)``:

        a, b ← γ (a, b) / (2 √(ab + ψ))        B̄_i = Δ¹_i B_i

    computed in logarithms. I − A is then similar to a positive definite matrix, with pivots of at least
    (1 + √(1−γ²))/2. Weaker than bounded rows, so that influence may reach further.

    Args:
        topology: an `UndirectedLine`, a batch of them, or a graph that is one.
        delta: Δ¹ > 0, ``[..., H, T]``.
        psi: Ψ, ``[..., H, T]``.
        delta_source: Δ² > 0, ``[..., H, T]``; Δ¹ if omitted.
        gamma: between 0 and 0.999.
        injection: ``"step"`` or β ``[..., H, T]``, see `chimera_ssm.adjacency.injection`; ``"hold"`` raises where a row
            sum exceeds one, which this normalisation allows.
        node_mask: True where there is a node, ``[..., T]``. A masked node loses its edges and injects nothing.
    """
    check_gamma(gamma, GAMMA_MAX)
    if not topology.cached(are_undirected_lines):
        raise TopologyError(
            f"this parameterisation needs undirected lines, found {topology!r}; use graph_adjacency for other graphs"
        )
    delta, psi = check_steps("delta", delta, topology), check_steps("psi", psi, topology)
    delta_source = delta if delta_source is None else check_steps("delta_source", delta_source, topology)
    node_mask = check_mask(node_mask, topology)
    source, target = ends(topology, delta.device)
    exponent = -(at(delta, target) + at(delta_source, source)) / 2
    reverse = at(exponent, topology.tensors("reverse_edges", delta.device))
    log_psi = (-(at(psi, target) + at(psi, source)) / 2).clamp(min=_LOG_PSI_MIN)
    weight = torch.exp(exponent - torch.logaddexp(exponent + reverse, log_psi) / 2 + math.log(gamma / 2))
    if (alive := edges_alive(topology, node_mask)) is not None:
        weight = weight.masked_fill(~alive, 0)
    return Adjacency(weight, inject(injection, lambda: delta, topology, weight, node_mask, bounded=False))


def are_undirected_lines(topology: Topology) -> bool:
    """Whether this is an undirected line, or several side by side."""
    if topology.is_traced:
        return isinstance(topology, UndirectedLine)
    return topology.undirected_paths is not None and topology.is_symmetric
