"""General graphs, their breadth-first DAGs, and merging of duplicate edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import traversal
from chimera_ssm.topology.base import hashable
from chimera_ssm.topology.cache import derived
from chimera_ssm.topology.dag import DAG
from chimera_ssm.topology.edge_list import EdgeList


class Graph(EdgeList):
    """A graph of any kind: directed or undirected (both directions listed), with cycles and self-loops.

    Args:
        num_nodes: T.
        edge_index: ``[2, E]``, row 0 the source j and row 1 the target i of each edge; the order is preserved.
    """

    @derived
    def is_acyclic(self) -> bool:
        try:
            traversal.levels(*self._edges)
        except TopologyError:
            return False
        return True

    def dags(self, roots: int | Sequence[int] = 1, seed: int = 0) -> tuple[DAG, ...]:
        """Orient the graph breadth-first from each root: edges that lead away from it, then those that lead back.

        Every edge except self-loops is in exactly one of the two DAGs of a root. Nodes are ranked by distance
        from the root, ties by number; a component without a root starts at its first node. This is an
        approximation: paths of the graph that change between the two directions are lost.

        Args:
            roots: the roots, or the number of roots to draw at random.
            seed: of the random draw.
        """
        return self.related(DAG, _dags, hashable(roots), seed)

    def _check_roots(self, roots: int | Sequence[int], seed: int) -> list[int]:
        if isinstance(roots, bool) or not isinstance(roots, (int, np.integer, Sequence, np.ndarray)):
            raise TopologyError(f"roots must be a number of roots or a sequence of nodes, found {roots!r}")
        if isinstance(roots, (int, np.integer)):
            if not 1 <= roots <= self.num_nodes:
                raise TopologyError(f"the number of roots must be from 1 to {self.num_nodes}, found {roots}")
            return np.random.default_rng(seed).choice(self.num_nodes, roots, replace=False).tolist()
        outside = [r for r in roots if not isinstance(r, (int, np.integer)) or not 0 <= r < self.num_nodes]
        if outside or not len(roots):
            raise TopologyError(
                f"roots must be nodes from 0 to {self.num_nodes - 1}, at least one, found {list(roots)}"
            )
        return [int(r) for r in roots]

    def _orient(self, root: int) -> tuple[DAG, DAG]:
        component = traversal.components(*self._edges)
        roots = np.append(np.setdiff1d(component, component[root]), root)
        both_ways = np.concatenate([self._source, self._target]), np.concatenate([self._target, self._source])
        rank = traversal.distances(self.num_nodes, *both_ways, roots) * self.num_nodes + np.arange(self.num_nodes)
        before, after = rank[self._source], rank[self._target]
        away, back = (DAG(self.num_nodes, self._edge_index[:, kept]) for kept in (before < after, before > after))
        return away, back


def _dags(graph: Graph, roots: int | Sequence[int], seed: int) -> tuple[DAG, ...]:
    return tuple(dag for root in graph._check_roots(roots, seed) for dag in graph._orient(root))


def merge_edges(
    edge_index: torch.Tensor, edge_attr: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Merge duplicate edges: each stays at its first position, with the mean of its features.

    Args:
        edge_index: ``[2, E]``.
        edge_attr: ``[E, …]`` floating-point features, or ``None``.

    Returns:
        ``edge_index [2, E']`` and ``edge_attr [E', …]`` or ``None``.
    """
    edge_index = torch.as_tensor(edge_index)
    unique, group = torch.unique(edge_index, dim=1, return_inverse=True)
    columns = torch.arange(edge_index.shape[1], device=edge_index.device)
    first = columns.new_full((unique.shape[1],), edge_index.shape[1]).scatter_reduce(0, group, columns, "amin")
    first, by_place = first.sort()
    if edge_attr is None:
        return edge_index[:, first], None
    if edge_attr.shape[:1] != edge_index.shape[1:]:
        raise ValueError(f"edge_attr must have {edge_index.shape[1]} rows, one per edge, found {list(edge_attr.shape)}")
    if not edge_attr.is_floating_point():
        raise ValueError(f"edge_attr is averaged and must be floating point, found {edge_attr.dtype}")
    wide = edge_attr.to(torch.promote_types(edge_attr.dtype, torch.float32))
    total = wide.new_zeros(unique.shape[1], *wide.shape[1:]).index_add(0, group, wide)
    count = torch.bincount(group, minlength=unique.shape[1]).view(-1, *[1] * (edge_attr.dim() - 1))
    return edge_index[:, first], (total / count)[by_place].to(edge_attr.dtype)
