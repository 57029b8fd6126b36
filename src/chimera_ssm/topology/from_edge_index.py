"""From PyG's ``edge_index`` and ``batch`` to a topology: graphs apart, edges once each, known graphs found again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import Batch, Graph, Topology
from chimera_ssm.topology.memory import nbytes

Array = np.ndarray
Value = TypeVar("Value")


@dataclass(frozen=True)
class PyGTopology:
    """Edges as they were given, and the topology they make.

    Attributes:
        topology: a `Graph`, or the union of several; no edge twice.
        edge: number in the topology of each edge given, ``[E]``; ``None`` if they are the same in the same order.
    """

    topology: Topology
    edge: Tensor | None = None

    def features(self, edge_attr: Tensor | None) -> Tensor | None:
        """Features of the topology's edges, of features of those given: the mean over duplicates, as `merge_edges`."""
        if edge_attr is None or self.edge is None:
            return edge_attr
        count = torch.bincount(self.edge, minlength=self.topology.num_edges)
        total = edge_attr.new_zeros(self.topology.num_edges, *edge_attr.shape[1:]).index_add(0, self.edge, edge_attr)
        return total / count.view(-1, *[1] * (edge_attr.dim() - 1))

    def fits(self, edge_index: Tensor, num_nodes: int, batch: Tensor | None = None) -> bool:
        """Whether it is the wiring of these edges, in this order, and of these graphs."""
        if self.topology.num_nodes != num_nodes or not self._has_graphs(batch):
            return False
        edges = self.topology.tensors("edge_index", self.topology.device)
        edges = edges if self.edge is None else edges[:, self.edge]
        return torch.equal(edges, edge_index.as_subclass(Tensor).long())

    def _has_graphs(self, batch: Tensor | None) -> bool:
        """Whether its parts are the graphs of ``batch``, of which those without nodes do not count."""
        if batch is None:
            return self.topology.num_parts == 1
        sizes = torch.unique_consecutive(batch.as_subclass(Tensor), return_counts=True)[1]
        return np.array_equal(self.topology.part_sizes, sizes.cpu().numpy())

    def __reduce__(self) -> tuple:
        return restore_wiring, (self.topology, self.edge)

    def to(self, device: torch.device | str) -> PyGTopology:
        """The same with its tensors on ``device``."""
        return PyGTopology(self.topology.to(device), None if self.edge is None else self.edge.to(device))


def restore_wiring(topology: Topology, edge: Tensor | None) -> PyGTopology:
    """A wiring that was pickled; checked, since the pickle may be damaged. `fits` compares it with a graph's edges."""
    if not isinstance(topology, Topology) or not (edge is None or _names_all(edge, topology.num_edges)):
        raise TopologyError(f"a pickled wiring must name all edges of its topology, {topology!r}; make the file anew")
    return PyGTopology(topology, edge)


def _names_all(edge: object, num_edges: int) -> bool:
    """Whether a list of edge numbers contains every edge of the topology and no other number."""
    is_list = isinstance(edge, Tensor) and edge.dtype == torch.long and edge.layout == torch.strided and edge.dim() == 1
    return is_list and torch.equal(edge.unique(), torch.arange(num_edges))


@torch.compiler.disable
def from_edge_index(edge_index: Tensor, num_nodes: int, batch: Tensor | None = None) -> PyGTopology:
    """The topology of edges as PyG has them.

    Graphs are known by their content: the same graph, in whatever batch and epoch, is the same object with all that was
    found out about it. The last batches are kept whole, so that the layers of a model share one. A compiled function
    breaks here: the topology, a constant of what follows, depends on values.

    Args:
        edge_index: ``[2, E]``, row 0 the source and row 1 the target of each edge; duplicates are merged.
        num_nodes: T, at least 1.
        batch: graph that each node belongs to, ``[T]``, ascending; one graph if omitted.
    """
    check_edge_index(edge_index)
    if batch is not None and batch.shape != (num_nodes,):
        raise TopologyError(f"batch must have shape [{num_nodes}], a graph for each node, found {list(batch.shape)}")
    edges, part = _integers(edge_index), None if batch is None else _integers(batch)
    wiring = _wirings.find((num_nodes, _digest(edges), _digest(part)), lambda: _convert(num_nodes, edges, part))
    return wiring.to(edge_index.device)


def check_edge_index(edge_index: Tensor) -> None:
    """Refuse what is not a tensor of integers, ``[2, E]``."""
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
    """What a value is, if it is not a dense tensor; else ``None``."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return None if value.layout == torch.strided else str(value.layout)


def join_topologies(wirings: Sequence[PyGTopology]) -> PyGTopology:
    """The wiring of a batch, of those of its graphs."""
    topology = Batch(tuple(part for w in wirings for part in w.topology.parts))
    if all(w.edge is None for w in wirings):
        return PyGTopology(topology)
    edges, start = [], 0
    for w in wirings:
        edges.append(start + (torch.arange(w.topology.num_edges) if w.edge is None else w.edge))
        start += w.topology.num_edges
    return PyGTopology(topology, torch.cat(edges))


def _integers(tensor: Tensor) -> Array:
    return tensor.detach().as_subclass(Tensor).long().cpu().contiguous().numpy()


def _digest(array: Array | None) -> bytes | None:
    return None if array is None else blake2b(array.data, digest_size=16).digest()


def _find_graph(num_nodes: int, edges: Array) -> Graph:
    return _graphs.find((num_nodes, _digest(np.ascontiguousarray(edges))), lambda: Graph(num_nodes, edges))


def _convert(num_nodes: int, edges: Array, batch: Array | None) -> PyGTopology:
    source, target = edges
    part = np.zeros(num_nodes, np.int64) if batch is None else batch
    _check(source, target, part)
    first = np.unique(source * num_nodes + target, return_index=True)[1]
    first = first[np.lexsort((first, part[target[first]]))]  # in the order given, graph by graph
    kept = edges[:, first]
    sizes, counts = np.bincount(part), np.bincount(part[kept[1]], minlength=part[-1] + 1)
    ends = np.cumsum(sizes), np.cumsum(counts)
    graphs = [
        _find_graph(size, kept[:, edge - count : edge] - (node - size))
        for size, count, node, edge in zip(sizes.tolist(), counts.tolist(), *map(Array.tolist, ends), strict=True)
        if size  # graphs without nodes have no part in anything
    ]
    topology = graphs[0] if batch is None else Batch(tuple(graphs))
    number = topology.find_edges(source, target)
    if first.size == source.size and np.array_equal(number, np.arange(source.size)):
        return PyGTopology(topology)
    with torch.inference_mode(False):  # it may be used for training next
        return PyGTopology(topology, torch.from_numpy(number))


def _check(source: Array, target: Array, part: Array) -> None:
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


class Recent(Generic[Value]):
    """A cache of recently used values, bounded in bytes; the most recent one stays, however large it is.

    What is known of a topology grows with its use, so that all are measured again after every few that are new.

    Args:
        capacity: in bytes.
    """

    def __init__(self, capacity: int):
        self.capacity, self.lock = capacity, Lock()
        self.kept: OrderedDict[Hashable, Value] = OrderedDict()
        self.sizes: dict[Hashable, int] = {}
        self.nbytes, self.unmeasured = 0, 0

    def find(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value known by the key, or else the one made, which is known from now on."""
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        value = make()
        with self.lock:
            value = self.kept.setdefault(key, value)  # another thread may have been first
            self._measure(key)
            while self.nbytes > self.capacity and len(self.kept) > 1:
                oldest, _ = self.kept.popitem(last=False)
                self.nbytes -= self.sizes.pop(oldest)
            return value

    def _measure(self, new: Hashable) -> None:
        self.unmeasured += 1
        due = 4 * self.unmeasured >= len(self.kept)
        self.unmeasured = 0 if due else self.unmeasured
        sizes = {key: nbytes(self.kept[key]) for key in (self.kept if due else [new])}
        self.nbytes += sum(size - self.sizes.get(key, 0) for key, size in sizes.items())
        self.sizes.update(sizes)

    def clear(self) -> None:
        """Forget everything."""
        with self.lock:
            self.kept.clear()
            self.sizes.clear()
            self.nbytes, self.unmeasured = 0, 0


#: All graphs of the peptides fit in, 16,000 with 150 nodes each and their plans.
_graphs: Recent[Graph] = Recent(1 << 29)
#: Whole batches with the plans that solvers make of them.
_wirings: Recent[PyGTopology] = Recent(1 << 28)


def forget() -> None:
    """Forget all graphs and batches."""
    _graphs.clear()
    _wirings.clear()
