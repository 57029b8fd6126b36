"""From PyG's ``edge_index`` and ``batch`` to a topology: graphs are separated, duplicate edges merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology.base import Topology
from chimera_ssm.topology.batch import Batch
from chimera_ssm.topology.cache import Recent, find_entry, outside_contexts
from chimera_ssm.topology.checks import capturing
from chimera_ssm.topology.graph import Graph
from chimera_ssm.topology.traced_graph import TracedGraph

Array = np.ndarray


@dataclass(frozen=True)
class PyGTopology:
    """The topology of an ``edge_index``, and the place of its edges in the topology.

    Attributes:
        topology: a `Graph`, or the union of several, without duplicate edges.
        edge: number in the topology of each column of ``edge_index``, ``[E]``; ``None`` if this is 0, 1, …, E−1.
    """

    topology: Topology
    edge: Tensor | None = None

    def features(self, edge_attr: Tensor | None) -> Tensor | None:
        """Features of the topology's edges: the mean over duplicates, as in `merge_edges`."""
        if edge_attr is None or self.edge is None:
            return edge_attr
        count = torch.bincount(self.edge, minlength=self.topology.num_edges)
        total = edge_attr.new_zeros(self.topology.num_edges, *edge_attr.shape[1:]).index_add(0, self.edge, edge_attr)
        return total / count.view(-1, *[1] * (edge_attr.dim() - 1))

    def fits(self, edge_index: Tensor, num_nodes: int, batch: Tensor | None = None) -> bool:
        """Whether it is the topology of these edges, in this order, and of these graphs."""
        if self.topology.num_nodes != num_nodes or not self._has_graphs(batch):
            return False
        edges = self.topology.edge_index
        edges = edges if self.edge is None else edges[:, self.edge]
        return torch.equal(edges, edge_index.as_subclass(Tensor).long())

    def _has_graphs(self, batch: Tensor | None) -> bool:
        """Whether its parts are the graphs of ``batch`` that have nodes."""
        if batch is None:
            return self.topology.num_parts == 1
        sizes = torch.unique_consecutive(batch.as_subclass(Tensor), return_counts=True)[1]
        return np.array_equal(self.topology.part_sizes, sizes.cpu().numpy())

    def to(self, device: torch.device | str) -> PyGTopology:
        """The same with its tensors on ``device``."""
        return PyGTopology(self.topology.to(device), None if self.edge is None else self.edge.to(device))


@torch.compiler.disable
def from_edge_index(edge_index: Tensor, num_nodes: int, batch: Tensor | None = None) -> PyGTopology:
    """The topology of PyG's ``edge_index`` and ``batch``.

    Graphs are identified by their content: equal graphs, in whatever batch and epoch, share their derived structure.
    Recent conversions are cached, so that the layers of a model share one. A compiled function breaks here, because
    the topology, a constant of what follows, depends on values.

    Args:
        edge_index: ``[2, E]``, row 0 the source and row 1 the target of each edge; duplicates are merged.
        num_nodes: T, at least 1.
        batch: graph of each node, ``[T]``, ascending; one graph if omitted.
    """
    check_edge_index(edge_index)
    if capturing():
        return PyGTopology(TracedGraph(num_nodes, edge_index))
    if batch is not None and batch.shape != (num_nodes,):
        raise TopologyError(f"batch must have shape [{num_nodes}], a graph for each node, found {list(batch.shape)}")
    edges, part = _integers(edge_index), None if batch is None else _integers(batch)
    name = num_nodes, _digest(edges), _digest(part)
    known = _conversions.get(name)
    entry = None if known is None else find_entry(known.key)
    if known is not None and entry is not None:
        converted = PyGTopology(entry.topology(), known.edge)
    else:
        converted = _convert(num_nodes, edges, part)
        _conversions.put(name, _Conversion(converted.topology.key, converted.edge))
    return converted.to(edge_index.device)


def check_edge_index(edge_index: Tensor) -> None:
    """Require a dense tensor of integers, ``[2, E]``."""
    if (found := instead_of_dense(edge_index)) is not None:
        raise TopologyError(
            f"edge_index must be a tensor [2, E], found {found}; sparse matrices are converted with "
            "torch_geometric.utils.to_edge_index"
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise TopologyError(f"edge_index must have shape [2, E], found {list(edge_index.shape)}")
    if edge_index.numel() and (edge_index.is_floating_point() or edge_index.dtype == torch.bool):
        raise TopologyError(f"edge_index must hold integers, found {edge_index.dtype}; convert it with .long()")


def instead_of_dense(value: object) -> str | None:
    """The type or layout of a value that is not a dense tensor; else ``None``."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return None if value.layout == torch.strided else str(value.layout)


def join_topologies(topologies: Sequence[PyGTopology]) -> PyGTopology:
    """The topology of a batch from those of its graphs."""
    union = Batch(tuple(part for t in topologies for part in t.topology.parts))
    if all(t.edge is None for t in topologies):
        return PyGTopology(union)
    edges, start = [], 0
    for t in topologies:
        edges.append(start + (torch.arange(t.topology.num_edges) if t.edge is None else t.edge))
        start += t.topology.num_edges
    return PyGTopology(union, torch.cat(edges))


def _integers(tensor: Tensor) -> Array:
    return tensor.detach().as_subclass(Tensor).long().cpu().contiguous().numpy()


def _digest(array: Array | None) -> bytes | None:
    return None if array is None else blake2b(array.data, digest_size=16).digest()


def _find_graph(num_nodes: int, edges: Array) -> Graph:
    entry = find_entry(Graph.key_of(num_nodes, *edges))  # known graphs have been checked
    return Graph(num_nodes, edges) if entry is None else entry.topology()


def _convert(num_nodes: int, edges: Array, batch: Array | None) -> PyGTopology:
    source, target = edges
    part = np.zeros(num_nodes, np.int64) if batch is None else batch
    _check_batch(source, target, part)
    first = np.unique(source * num_nodes + target, return_index=True)[1]
    first = first[np.lexsort((first, part[target[first]]))]  # in the order given, graph by graph
    kept = edges[:, first]
    sizes, counts = np.bincount(part), np.bincount(part[kept[1]], minlength=part[-1] + 1)
    ends = np.cumsum(sizes), np.cumsum(counts)
    graphs = [
        _find_graph(size, kept[:, edge - count : edge] - (node - size))
        for size, count, node, edge in zip(sizes.tolist(), counts.tolist(), *map(Array.tolist, ends), strict=True)
        if size  # graphs without nodes are left out
    ]
    topology = graphs[0] if batch is None else Batch(tuple(graphs))
    number = topology.find_edges(source, target)
    if first.size == source.size and np.array_equal(number, np.arange(source.size)):
        return PyGTopology(topology)
    with outside_contexts():  # the next use may be training
        return PyGTopology(topology, torch.from_numpy(number))


def _check_batch(source: Array, target: Array, part: Array) -> None:
    outside = np.flatnonzero((np.minimum(source, target) < 0) | (np.maximum(source, target) >= part.size))
    if outside.size:
        e = outside[0]
        raise TopologyError(
            f"edge {e} ({source[e]} → {target[e]}) is out of range: x has rows for the nodes 0 to {part.size - 1}"
        )
    if part[0] < 0 or (np.diff(part) < 0).any():
        raise TopologyError("batch must be ascending: all nodes of a graph one after the other, as PyG's loaders do")
    across = np.flatnonzero(part[source] != part[target])
    if across.size:
        e = across[0]
        raise TopologyError(
            f"edge {e} ({source[e]} → {target[e]}) leads from graph {part[source[e]]} to graph {part[target[e]]} of "
            "the batch; correct batch, or leave it out to treat all nodes as one graph"
        )


@dataclass(frozen=True)
class _Conversion:
    """Key of a `PyGTopology`'s topology, which the cache of topologies holds, and its edge numbers."""

    key: str
    edge: Tensor | None


_conversions: Recent[_Conversion] = Recent(1 << 26)
