"""Acyclic graphs, and graphs with cycles as DAGs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.adjacency import Adjacency, dag_adjacency
from chimera_ssm.nn.kinds.base import Kind
from chimera_ssm.nn.local_conv import LocalConv, NeighbourConv
from chimera_ssm.topology import DAG, Batch, Graph, Topology


@dataclass(frozen=True)
class OnDAG(Kind):
    """Any acyclic graph; a graph with cycles, alone or in a batch, is replaced by its `dags`, which share parameters.

    The roots of these DAGs depend on the numbering of the nodes. On graphs with cycles the result is therefore not
    invariant to a permutation of the nodes, unlike that of `OnGraph`.

    Args:
        normalize: ``"mean"`` or ``"sqrt"``, see `dag_adjacency`.
        num_roots: roots of the DAGs of a graph with cycles; each root gives two DAGs, away from it and towards it.
    """

    normalize: str = "mean"
    num_roots: int = 1

    streams: ClassVar[bool] = True
    edge_features: ClassVar[bool] = True
    num_steps: ClassVar[int] = 1

    def conv(self, channels: int) -> LocalConv:
        return NeighbourConv(channels)

    def mismatch(self, topology: Topology) -> str | None:
        return None

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        terms, dags = [], _dags(topology, self.num_roots)
        for d, dag in enumerate(dags):
            own = edge_step
            if edge_step is not None and not topology.is_acyclic:
                own = edge_step.index_select(-1, topology.cached(_edges_of_dag, d, self.num_roots, edge_step.device))
            weights = dag_adjacency(
                dag,
                steps[:, :, 0],
                edge_step=own,
                normalize=self.normalize,
                injection=self._injection(projected),
                node_mask=node_mask,
            )
            if len(dags) > 1 and not topology.cached(_same_number_of_dags, self.num_roots):
                weights = self._rescaled(weights, d, len(dags), topology.cached(_counts, self.num_roots, steps.device))
            terms.append((dag, weights))
        return terms

    def _rescaled(self, weights: Adjacency, d: int, num_dags: int, count: Tensor) -> Adjacency:
        """Replace the mixer's factor 1/√num_dags by 1/√count, with ``count [T]`` the number of DAGs of each node."""
        share = torch.where(count > d, (num_dags / count.to(weights.scale.dtype)).sqrt(), 0)
        return weights._replace(scale=weights.scale * share)


def _dags(topology: Topology, roots: int) -> tuple[Topology, ...]:
    """An acyclic topology itself, or the DAGs that replace it; parts of a batch are replaced independently."""
    if topology.is_acyclic:
        return (topology,)
    if topology.num_parts == 1 and not isinstance(topology, Batch) and roots == 1:
        return topology.dags()
    return topology.related(Batch, _dags_of_parts, roots)


def _dags_of_part(part: Topology, roots: int) -> tuple[Topology, ...]:
    if part.is_acyclic:
        return (part,)
    return part.dags(min(roots, part.num_nodes)) if isinstance(part, Graph) else part.dags()


def _same_number_of_dags(topology: Topology, roots: int) -> bool:
    """Whether all parts have the same number of DAGs."""
    return len({len(_dags_of_part(part, roots)) for part in topology.parts}) == 1


def _dags_of_parts(topology: Topology, roots: int) -> tuple[Batch, ...]:
    """Batch d contains DAG d of each part, or a DAG without edges if the part has fewer DAGs."""
    edgeless = [_edgeless(part.num_nodes) for part in topology.parts]
    per_batch = zip_longest(*(_dags_of_part(part, roots) for part in topology.parts))
    unions = [Batch(tuple(dag or none for dag, none in zip(row, edgeless, strict=True))) for row in per_batch]
    return tuple(union.to(topology.device) for union in unions)


def _edgeless(num_nodes: int) -> DAG:
    return DAG(num_nodes, np.empty((2, 0), int))


def _counts(topology: Topology, roots: int, device: torch.device) -> Tensor:
    """Number of DAGs of the part to which each node belongs, ``[T]``."""
    counts = np.repeat([len(_dags_of_part(part, roots)) for part in topology.parts], topology.part_sizes)
    return torch.from_numpy(counts).to(device)


def _edges_of_dag(topology: Topology, d: int, roots: int, device: torch.device) -> Tensor:
    """Indices in ``topology`` of the edges of one of its DAGs."""
    return torch.from_numpy(topology.find_edges(*_dags(topology, roots)[d]._edge_index)).to(device)
