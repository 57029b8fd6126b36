"""Random walks on graphs, and what a walk tells about its own past."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.topology import Topology


class Walks(NamedTuple):
    """Random walks of equal length.

    Attributes:
        nodes: the nodes that are visited, ``[walks, steps + 1]``.
        edges: the topology's edges that are taken, ``[walks, steps]``; −1 where a walk stays because no edge leads on.
    """

    nodes: Tensor
    edges: Tensor


def random_walks(topology: Topology, start: Tensor, draws: Tensor) -> Walks:
    """Walks that follow edges and return to the node they come from only where there is no other way.

    Args:
        topology: without duplicate edges.
        start: the first node of each walk, ``[walks]``.
        draws: numbers from 0 to below 1 that decide the steps, ``[walks, steps]``.
    """
    source, target = topology.edge_index.to(start.device)
    T, E = topology.num_nodes, topology.num_edges
    key, edge = (source * T + target).sort()
    target = target[edge]
    begin = torch.searchsorted(key, T * torch.arange(T + 1, device=start.device))
    back = _find(key, target * T + key // T)  # in the sorted order, as are edges below; −1 if there is none
    here, came, nodes, edges = start, torch.full_like(start, -1), [start], []
    for draw in draws.unbind(1):
        degree = begin[here + 1] - begin[here]
        excluded = torch.where((came >= 0) & (degree > 1), back[came] if E else came, -1)
        choice = begin[here] + (draw * (degree - (excluded >= 0).long())).long()
        choice = choice + ((excluded >= 0) & (choice >= excluded)).long()
        came = torch.where(degree > 0, choice, -1)
        here = torch.where(degree > 0, target[came], here) if E else here
        nodes.append(here)
        edges.append(torch.where(came >= 0, edge[came], -1) if E else came)
    return Walks(torch.stack(nodes, dim=1), torch.stack(edges, dim=1))


def past_bits(topology: Topology, nodes: Tensor, window: int) -> Tensor:
    """What the nodes of a walk have in common with those before them, ``[walks, steps + 1, 2 · window − 1]``.

    For s = 1 … window whether a node is the same as s steps ago; for s = 2 … window whether it has an edge from it.

    Args:
        topology: without duplicate edges.
        nodes: the nodes that are visited, ``[walks, steps + 1]``.
        window: W.
    """
    before = F.pad(nodes, (window, 0), value=-1).unfold(1, window, 1)[:, :-1].flip(-1)  # 1, …, window steps ago
    source, target = topology.edge_index.to(nodes.device)
    key = (source * topology.num_nodes + target).sort().values
    adjacent = _find(key, before[..., 1:] * topology.num_nodes + nodes.unsqueeze(-1)) >= 0
    return torch.cat([before == nodes.unsqueeze(-1), adjacent], dim=-1)


def _find(ascending: Tensor, key: Tensor) -> Tensor:
    """Position of each key in ascending ones, −1 where it is missing."""
    if not len(ascending):
        return torch.full_like(key, -1)
    place = torch.searchsorted(ascending, key.contiguous()).clamp(max=len(ascending) - 1)
    return torch.where(ascending[place] == key, place, -1)
