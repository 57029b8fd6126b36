"""Graphs in memory and on disk: flat arrays, with the elimination order of each graph, planned once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.cache import cached
from chimera_lab.data.samples import Samples
from chimera_ssm.topology import Topology
from chimera_ssm.topology.from_edge_index import PyGTopology, from_edge_index, join_topologies
from chimera_ssm.topology.symbolic_lu import EliminationPlan, TooMuchFill

Array = np.ndarray

#: Of the files; those of other formats are not looked at.
_FORMAT = 2
#: Bytes of the digest that a file of orders begins with.
_SEAL = 32


class Graph(NamedTuple):
    """A graph with features: ``x [T, features]``, ``edge_index [2, E]``, ``edge_attr [E, features]``, labels ``y``."""

    x: Array
    edge_index: Array
    edge_attr: Array | None
    y: Array


class GraphStore(Samples):
    """Graphs one after the other in flat arrays; a sample has tensors and a `PyGTopology`, `collate` joins samples.

    Args:
        arrays: as `GraphStore.of` makes them, and `save` and `load` keep them.
    """

    def __init__(self, arrays: dict[str, Array]):
        self.arrays = arrays
        self.nodes, self.edges, self.targets = (begins(arrays[name]) for name in ("nodes", "edges", "targets"))
        self._wirings: dict[int, PyGTopology] = {}

    @classmethod
    def of(cls, graphs: Iterable[Graph], notes: Sequence[str] = ()) -> GraphStore:
        """Graphs with the order in which to eliminate their nodes, which is found here; and notes to keep with them."""
        pairs = [(graph, _planned(graph)) for graph in graphs]  # one by one, so that a bar shows how they go on
        if not pairs:
            raise ValueError("there are no graphs in these data")
        if len(found := {graph.y.shape[1:] for graph, _ in pairs}) > 1:
            raise ValueError(f"all graphs should have the same labels, found rows of the shapes {sorted(found)}")
        graphs = [graph for graph, _ in pairs]
        arrays = {
            "x": np.concatenate([g.x for g in graphs]),
            "edge_index": np.concatenate([g.edge_index for g in graphs], axis=1).astype(np.int32),
            "y": np.concatenate([g.y for g in graphs]),
            "nodes": np.array([len(g.x) for g in graphs]),
            "edges": np.array([g.edge_index.shape[1] for g in graphs]),
            "targets": np.array([len(g.y) for g in graphs]),
            "order": orders([topology for _, topology in pairs]),
            "notes": np.array(list(notes), str),
        }
        if graphs[0].edge_attr is not None:
            arrays["edge_attr"] = np.concatenate([g.edge_attr for g in graphs if g.edge_attr is not None])
        return cls(arrays)

    def __len__(self) -> int:
        return len(self.arrays["nodes"])

    def sample(self, index: int) -> dict[str, Any]:
        nodes, edges = (slice(*ends[index : index + 2].tolist()) for ends in (self.nodes, self.edges))
        targets = slice(*self.targets[index : index + 2].tolist())
        edge_attr = self.arrays["edge_attr"][edges] if "edge_attr" in self.arrays else None
        sample = {
            "x": _tensor(self.arrays["x"][nodes]),
            "edge_index": _tensor(self.arrays["edge_index"][:, edges]),
            "edge_attr": None if edge_attr is None else _tensor(edge_attr),
            "labels": _tensor(self.arrays["y"][targets]),
        }
        if index not in self._wirings:
            self._wirings[index] = from_edge_index(sample["edge_index"], len(sample["x"]))
        sample["wiring"] = self._wirings[index]
        if "positions" in self.arrays:  # of `add_positions`
            sample["positions"] = _tensor(self.arrays["positions"][nodes])
        return sample

    def content(self, index: int) -> bytes:
        """Edges and labels: features may differ a little from machine to machine, as colours of superpixels do."""
        edges, targets = (slice(*ends[index : index + 2].tolist()) for ends in (self.edges, self.targets))
        return self.arrays["edge_index"][:, edges].tobytes() + self.arrays["y"][targets].tobytes()

    def collate(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A batch as `ChimeraForGraphs` takes it."""
        return collate(samples)

    @property
    def labels(self) -> Tensor | None:
        y = self.arrays["y"]
        single = y.ndim == 1 and np.issubdtype(y.dtype, np.integer) and len(y) == len(self)
        return torch.from_numpy(y.astype(np.int64)) if single else None

    @property
    def notes(self) -> list[str]:
        """What there was to say when the graphs were read."""
        return self.arrays["notes"].tolist()

    def save(self, path: Path) -> None:
        """Write to a file."""
        with path.open("wb") as file:  # NumPy adds an ending to names, not to files
            np.savez_compressed(file, **self.arrays)  # ty: ignore[invalid-argument-type]

    @classmethod
    def load(cls, path: Path) -> GraphStore:
        """Read what `save` wrote; nothing in the file is executed."""
        with np.load(path, allow_pickle=False) as file:
            return cls({name: file[name] for name in file.files})


def collate(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Samples as one batch: nodes and edges one after the other, the topology the union of theirs."""
    sizes = torch.tensor([len(s["x"]) for s in samples])
    starts = (sizes.cumsum(0) - sizes).tolist()
    batch: dict[str, Any] = {
        "x": torch.cat([s["x"] for s in samples]),
        "edge_index": torch.cat([s["edge_index"] + start for s, start in zip(samples, starts, strict=True)], dim=1),
        "edge_attr": None,
        "batch": torch.repeat_interleave(torch.arange(len(samples)), sizes),
        "labels": torch.cat([s["labels"] for s in samples]),
        "wiring": join_topologies([s["wiring"] for s in samples]),
        "batch_size": len(samples),
    }
    for name in ("edge_attr", "positions"):
        if samples[0].get(name) is not None:
            batch[name] = torch.cat([s[name] for s in samples])
    return batch


# Plans


def plan(topology: Topology) -> EliminationPlan | None:
    """The order in which to eliminate a graph's nodes; ``None`` where factors would not be sparse."""
    try:
        return topology.elimination_plan(max(topology.num_nodes**2 // 2, 1024))
    except TooMuchFill:
        return None


def _planned(graph: Graph) -> Topology:
    topology = from_edge_index(torch.from_numpy(graph.edge_index), len(graph.x)).topology
    plan(topology)
    return topology


def orders(topologies: Sequence[Topology]) -> Array:
    """The elimination orders of graphs, one after the other, int32; −1 for all nodes of a graph that has no plan."""
    plans = [plan(t) for t in topologies]
    pieces = [np.full(t.num_nodes, -1) if p is None else p.order for t, p in zip(topologies, plans, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *pieces]).astype("<i4")


def begins(sizes: Array) -> Array:
    """The start of each piece of a flat array, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)])


def keep_plans(graphs: Iterable[Any], path: str | Path) -> None:
    """Find the elimination orders of PyG's graphs, or read them from a file; then `ChimeraConv` knows these graphs.

    Args:
        graphs: ``Data`` objects, or a whole data set of PyG.
        path: a file of any name; written anew if it is not there, not whole, or not of these graphs.
    """
    path = Path(path)
    topologies = [from_edge_index(g.edge_index, g.num_nodes).topology for g in graphs if g.num_nodes]
    keys = "".join(t.key for t in topologies).encode()
    ends = begins(np.array([t.num_nodes for t in topologies], int))
    content = path.read_bytes() if path.is_file() else b""
    if len(content) != _SEAL + 4 * ends[-1] or content[:_SEAL] != _seal(keys, content[_SEAL:]):
        found = orders(topologies).tobytes()
        _write(path, _seal(keys, found) + found)


def _seal(keys: bytes, orders: bytes) -> bytes:
    """Begins a file of orders: says of which graphs they are, and that they are as they were written."""
    return blake2b(keys + orders, digest_size=_SEAL).digest()


class KeepPlan:
    """A transform of PyG: plans a graph, and keeps the plan with it as ``data.wiring``.

    `ChimeraForGraphs` takes these over from a batch, whichever process made them. As ``pre_transform`` of a data set
    the work is done once and kept with its files; as ``transform`` it is done by the loader's workers. Models made of
    `ChimeraConv`, which is not given the batch itself, are served by `keep_plans`. A plan is of just these edges: of a
    graph that another transform changes afterwards it is not used, so that this one should be the last. Of a ``Batch``
    each graph is planned.

    Example:
        >>> LRGBDataset(root, "Peptides-func", pre_transform=KeepPlan())
    """

    def __call__(self, data: Any) -> Any:
        """The same graph with its wiring."""
        if not data.num_nodes:
            data.wiring = ()  # PyG batches what all graphs have, and takes None for nothing
            return data
        data.wiring = from_edge_index(data.edge_index, data.num_nodes, getattr(data, "batch", None))
        for graph in data.wiring.topology.parts:
            plan(graph)
        return data

    def __repr__(self) -> str:
        return "KeepPlan()"


# Files


def kept(name: str, source: bytes, make: Callable[[], GraphStore]) -> GraphStore:
    """A store from its file in the cache, or made and written there.

    Args:
        name: of the data.
        source: what the graphs are made of, or a digest of it; another source has another file.
        make: makes the store.
    """
    made: list[GraphStore] = []

    def write(path: Path) -> None:
        made.append(make())
        made[0].save(path)

    with suppress(OSError):  # a full or read-only disk: the graphs are there all the same
        path = cached(f"graphs/{name}.npz", (_FORMAT, blake2b(source).hexdigest()), write)
        return made[0] if made else GraphStore.load(path)
    return made[0] if made else make()


def _write(path: Path, content: bytes) -> None:
    """Write a file of just this name, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _tensor(array: Array) -> Tensor:
    """Integers as int64, as PyTorch's indices are; real numbers as float32."""
    dtype = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32
    return torch.from_numpy(array.astype(dtype))
