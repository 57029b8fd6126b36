"""Injection: the factor β of B̄ = β B, which says how strongly each node enters the mix.

- ``"hold"``: β_i = 1 − Σ_j A_ij. The gain L β is 1 at every node, whatever the weights; row sums must not exceed one.
- ``"step"``: the paper's sum of steps. The gain is near 1 on directed lines, and at most max Δ / (1 − γ) on graphs with
  row sums up to γ, about 0.1 at the usual initial steps.
- ``"projected"``: a signed linear projection of the node's features. The gain is at most max |β| · ‖L‖∞.

With ``"hold"`` each row of L diag(β) is a probability distribution: where a random walk against the edges, absorbed at
node i with probability β_i, ends. On a directed line it is zero-order hold, 1 − exp(−Δ) ≈ Δ.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from chimera_ssm.adjacency.steps import check_floating, check_mask, ends, sum_at
from chimera_ssm.topology import Topology

INJECTIONS = ("hold", "step", "projected")


def hold_injection(topology: Topology, weight: Tensor, *, node_mask: Tensor | None = None) -> Tensor:
    """``β_i = 1 − Σ_j A_ij``, so that ``L β = 1``; 0 at masked nodes.

    Args:
        topology: any topology.
        weight: A on its edges, ``[..., H, E]``; the row sums must not exceed one.
        node_mask: True where there is a node, ``[..., T]``; masked nodes must have lost their edges already.

    Returns:
        β, ``[..., H, T]``.
    """
    weight = check_floating("weight", weight)
    if weight.dim() < 2 or weight.shape[-1] != topology.num_edges:
        raise ValueError(f"weight must have shape [..., H, {topology.num_edges}], found {list(weight.shape)}")
    scale = _held(topology, weight)
    if not torch.compiler.is_compiling() and scale.numel() and (least := scale.min()) < -1e-5:
        node = int((scale == least).nonzero()[0, -1])
        raise ValueError(
            f"hold injection needs row sums of A of at most one, found {1 - least.item():.6g} at node {node}; "
            'use weights with bounded rows (normalize="mean" on DAGs, graph_adjacency on graphs), or another injection'
        )
    return _masked(scale, check_mask(node_mask, topology))


def inject(
    injection: str | Tensor,
    step: Callable[[], Tensor],
    topology: Topology,
    weight: Tensor,
    node_mask: Tensor | None,
    bounded: bool = True,
) -> Tensor:
    """β as a parameterisation's ``injection`` says: given as a tensor, held, or ``step()``; 0 at masked nodes.

    ``bounded`` says that the row sums of ``weight`` are at most one by construction, and need no check.
    """
    if isinstance(injection, Tensor):
        scale = injection
    elif injection == "hold":
        scale = _held(topology, weight) if bounded else hold_injection(topology, weight)
    elif injection == "step":
        scale = step()
    else:
        raise ValueError(f"injection must be 'hold', 'step' or a tensor β [..., H, T], found {injection!r}")
    return _masked(scale, node_mask)


def _held(topology: Topology, weight: Tensor) -> Tensor:
    _, target = ends(topology, weight.device)
    return 1 - sum_at(weight, target, topology.num_nodes)


def _masked(scale: Tensor, node_mask: Tensor | None) -> Tensor:
    return scale if node_mask is None else scale.masked_fill(~node_mask.unsqueeze(-2), 0)
