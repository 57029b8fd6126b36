"""Other state space models, as choices of A and B̄ on the same machinery (paper, section 2.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.adjacency.dag import dag_adjacency
from chimera_ssm.adjacency.steps import Adjacency, check_floating, check_mask, edges_alive
from chimera_ssm.topology import Topology


def linear_attention(topology: Topology, num_heads: int = 1, *, node_mask: Tensor | None = None) -> Adjacency:
    """Linear attention: ``A = 1`` on every edge, ``B̄ = B``.

    Args:
        topology: any acyclic topology; on a graph with cycles I − A may be singular.
        num_heads: H.
        node_mask: True where there is a node, ``[..., T]``.
    """
    device = topology.device if node_mask is None else node_mask.device
    return retnet(topology, torch.ones(num_heads, device=device), node_mask=node_mask)


def retnet(topology: Topology, decay: Tensor, *, node_mask: Tensor | None = None) -> Adjacency:
    """RetNet: ``A = γ_h`` on every edge of head h, ``B̄ = B``.

    Args:
        topology: any topology; with cycles, γ times the largest in-degree must stay below 1.
        decay: γ, ``[..., H]``.
        node_mask: True where there is a node, ``[..., T]``.
    """
    node_mask = check_mask(node_mask, topology)
    decay = check_floating("decay", decay)
    weight = decay.unsqueeze(-1).expand(*decay.shape, topology.num_edges)
    scale = torch.ones_like(decay).unsqueeze(-1).expand(*decay.shape, topology.num_nodes)
    alive = edges_alive(topology, node_mask)
    if node_mask is None or alive is None:
        return Adjacency(weight, scale)
    return Adjacency(weight * alive, scale * node_mask.unsqueeze(-2))


def mamba2(
    topology: Topology, delta: Tensor, decay: Tensor | None = None, *, node_mask: Tensor | None = None
) -> Adjacency:
    """Mamba-2 with its A = −a: ``A_ij = exp(−a Δ_i)``, ``B̄_i = Δ_i B_i`` on a directed line.

    Args:
        topology: a `Line`, or a batch of lines; on other DAGs its generalisation by the mean over parents.
        delta: Δ > 0, ``[..., H, T]``.
        decay: a > 0 of each head, ``[H]``; 1 if omitted.
        node_mask: True where there is a node, ``[..., T]``.
    """
    return dag_adjacency(topology, delta, step="target", decay=decay, node_mask=node_mask)
