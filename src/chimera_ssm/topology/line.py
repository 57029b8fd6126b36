"""Lines: sequences with influence in one direction or in both."""

from __future__ import annotations

import numpy as np
import torch

from chimera_ssm.topology.base import Array, Topology
from chimera_ssm.topology.cache import derived
from chimera_ssm.topology.checks import check_num_nodes
from chimera_ssm.topology.plans import PathPlan


class Line(Topology):
    """The directed line 0 → 1 → … → T−1, or T−1 → … → 0 if ``reverse``. Edge ``e`` joins e and e+1."""

    reverse: bool

    def __init__(self, num_nodes: int, reverse: bool = False):
        num_nodes, reverse = check_num_nodes(num_nodes), bool(reverse)
        key = f"Line({num_nodes}{', reverse=True' if reverse else ''})"
        super().__init__(key, num_nodes, num_nodes - 1, reverse=reverse)

    def __repr__(self) -> str:
        return self.key

    def _find_ends(self) -> tuple[Array, Array]:
        low = np.arange(self.num_nodes - 1)
        return (low + 1, low) if self.reverse else (low, low + 1)

    def traced_tensor(self, name: str, device: torch.device) -> torch.Tensor:
        nodes = torch.arange(self.num_nodes, device=device)
        if name == "edge_index":
            return torch.stack([nodes[1:], nodes[:-1]] if self.reverse else [nodes[:-1], nodes[1:]])
        if name == "in_degree":
            return (nodes != (self.num_nodes - 1 if self.reverse else 0)).long()
        return super().traced_tensor(name, device)

    @property
    def is_acyclic(self) -> bool:
        return True

    @derived
    def _levels(self) -> Array:
        return self._along(np.arange(self.num_nodes))

    @derived
    def diameter(self) -> int:
        return self.num_nodes - 1

    @derived
    def directed_paths(self) -> PathPlan | None:
        nodes = self._along(np.arange(self.num_nodes))
        none = np.full(self.num_nodes, self.num_edges)
        ahead = np.concatenate([none[:1], self._along(np.arange(self.num_edges))])
        return PathPlan(nodes if self.reverse else None, ahead, none)

    def _along(self, numbers: Array) -> Array:
        return numbers[::-1].copy() if self.reverse else numbers

    def flip(self) -> Line:
        """The line in the other direction, with the same edge order."""
        return Line(self.num_nodes, not self.reverse).to(self.device)

    def dags(self) -> tuple[Line]:
        """Itself."""
        return (self,)


class UndirectedLine(Topology):
    """The line 0 ↔ 1 ↔ … ↔ T−1. Edge ``e`` is e → e+1 for e < T−1; edge ``T−1+e`` is its reverse.

    With ``reverse`` the two halves of the edge order are exchanged.
    """

    reverse: bool

    def __init__(self, num_nodes: int, reverse: bool = False):
        num_nodes, reverse = check_num_nodes(num_nodes), bool(reverse)
        key = f"UndirectedLine({num_nodes}{', reverse=True' if reverse else ''})"
        super().__init__(key, num_nodes, 2 * (num_nodes - 1), reverse=reverse)

    def __repr__(self) -> str:
        return self.key

    def _find_ends(self) -> tuple[Array, Array]:
        low = np.arange(self.num_nodes - 1)
        first, second = np.concatenate([low, low + 1]), np.concatenate([low + 1, low])
        return (second, first) if self.reverse else (first, second)

    def traced_tensor(self, name: str, device: torch.device) -> torch.Tensor:
        low = torch.arange(self.num_nodes - 1, device=device)
        if name == "edge_index":
            first, second = torch.cat([low, low + 1]), torch.cat([low + 1, low])
            return torch.stack([second, first] if self.reverse else [first, second])
        if name == "reverse_edges":
            return torch.cat([low + (self.num_nodes - 1), low])
        return super().traced_tensor(name, device)

    @property
    def is_acyclic(self) -> bool:
        return self.num_nodes == 1

    @derived
    def diameter(self) -> int:
        return self.num_nodes - 1

    @derived
    def undirected_paths(self) -> PathPlan | None:
        none = np.array([self.num_edges])
        first, second = np.arange(self.num_edges).reshape(2, -1)
        ahead, back = (second, first) if self.reverse else (first, second)
        return PathPlan(None, np.concatenate([none, ahead]), np.concatenate([back, none]))

    def flip(self) -> UndirectedLine:
        """The same line; each edge takes the place of its reverse in the edge order."""
        return UndirectedLine(self.num_nodes, not self.reverse).to(self.device)

    def dags(self) -> tuple[Line, Line]:
        """The line forward and the line backward."""
        forward, backward = self.related(Line, _dags)
        return forward, backward


def _dags(line: UndirectedLine) -> tuple[Line, Line]:
    return Line(line.num_nodes), Line(line.num_nodes, reverse=True)
