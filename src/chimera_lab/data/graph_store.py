"""Graphs in memory and on disk, as flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.cache import cached_value
from chimera_lab.data.samples import Samples
from chimera_ssm.topology.from_edge_index import PyGTopology, from_edge_index, join_topologies

Array = np.ndarray

#: Version of the files in the cache; files of other versions are ignored.
_FORMAT = 3


class GraphSample(NamedTuple):
    """A graph with features: ``x [T, features]``, ``edge_index [2, E]``, ``edge_attr [E, features]``, labels ``y``."""

    x: Array
    edge_index: Array
    edge_attr: Array | None
    y: Array


class GraphStore(Samples):
    """Graphs concatenated in flat arrays; a sample has tensors and a `PyGTopology`.

    Args:
        arrays: the arrays of `GraphStore.of`.
    """

    def __init__(self, arrays: dict[str, Array]):
        self.arrays = arrays
        self.nodes, self.edges, self.targets = (begins(arrays[name]) for name in ("nodes", "edges", "targets"))
        self._topologies: dict[int, PyGTopology] = {}

    @classmethod
    def of(cls, graphs: Iterable[GraphSample], notes: Sequence[str] = ()) -> GraphStore:
        """Concatenate graphs; ``notes`` are stored with them."""
        graphs = [_checked(graph) for graph in graphs]
        if not graphs:
            raise ValueError("there are no graphs in these data")
        if len(found := {graph.y.shape[1:] for graph in graphs}) > 1:
            raise ValueError(f"all graphs should have the same labels, found rows of the shapes {sorted(found)}")
        arrays = {
            "x": np.concatenate([g.x for g in graphs]),
            "edge_index": np.concatenate([g.edge_index for g in graphs], axis=1).astype(np.int32),
            "y": np.concatenate([g.y for g in graphs]),
            "nodes": np.array([len(g.x) for g in graphs]),
            "edges": np.array([g.edge_index.shape[1] for g in graphs]),
            "targets": np.array([len(g.y) for g in graphs]),
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
        if index not in self._topologies:
            self._topologies[index] = from_edge_index(sample["edge_index"], len(sample["x"]))
        sample["pyg_topology"] = self._topologies[index]
        if "positions" in self.arrays:  # of `add_positions`
            sample["positions"] = _tensor(self.arrays["positions"][nodes])
        return sample

    def content(self, index: int) -> bytes:
        """Edges and labels: features, such as colours of superpixels, may differ slightly between machines."""
        edges, targets = (slice(*ends[index : index + 2].tolist()) for ends in (self.edges, self.targets))
        return self.arrays["edge_index"][:, edges].tobytes() + self.arrays["y"][targets].tobytes()

    def collate(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A batch as `ChimeraForGraphs` expects it."""
        return collate(samples)

    @property
    def labels(self) -> Tensor | None:
        y = self.arrays["y"]
        single = y.ndim == 1 and np.issubdtype(y.dtype, np.integer) and len(y) == len(self)
        return torch.from_numpy(y.astype(np.int64)) if single else None

    @property
    def notes(self) -> list[str]:
        """Remarks from reading the graphs."""
        return self.arrays["notes"].tolist()

    def save(self, path: Path) -> None:
        """Write to a file."""
        with path.open("wb") as file:  # NumPy appends .npz to names, not to open files
            np.savez_compressed(file, **self.arrays)  # ty: ignore[invalid-argument-type]

    @classmethod
    def load(cls, path: Path) -> GraphStore:
        """Read what `save` wrote; nothing in the file is executed."""
        with np.load(path, allow_pickle=False) as file:
            return cls({name: file[name] for name in file.files})


def collate(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Samples as one batch: concatenated nodes and edges, and the union of the topologies."""
    sizes = torch.tensor([len(s["x"]) for s in samples])
    starts = (sizes.cumsum(0) - sizes).tolist()
    batch: dict[str, Any] = {
        "x": torch.cat([s["x"] for s in samples]),
        "edge_index": torch.cat([s["edge_index"] + start for s, start in zip(samples, starts, strict=True)], dim=1),
        "edge_attr": None,
        "batch": torch.repeat_interleave(torch.arange(len(samples)), sizes),
        "labels": torch.cat([s["labels"] for s in samples]),
        "pyg_topology": join_topologies([s["pyg_topology"] for s in samples]),
        "batch_size": len(samples),
    }
    for name in ("edge_attr", "positions"):
        if samples[0].get(name) is not None:
            batch[name] = torch.cat([s[name] for s in samples])
    return batch


def _checked(graph: GraphSample) -> GraphSample:
    """The graph; one whose edges lead to nodes that it does not have is refused."""
    if graph.edge_index.size and not 0 <= graph.edge_index.min() <= graph.edge_index.max() < len(graph.x):
        raise ValueError(
            f"edges must join nodes from 0 to {len(graph.x) - 1}, found {graph.edge_index.min()} to "
            f"{graph.edge_index.max()} in edge_index; correct the graph"
        )
    return graph


def begins(sizes: Array) -> Array:
    """Offsets of the pieces of a flat array, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)])


def cached_store(name: str, source: bytes, make: Callable[[], GraphStore]) -> GraphStore:
    """A store from its file in the cache, or made and written there.

    Args:
        name: of the data.
        source: what the graphs are made of, or a digest of it; another source has another file.
        make: makes the store.
    """
    key = _FORMAT, blake2b(source).hexdigest()
    return cached_value(f"graphs/{name}.npz", key, make, GraphStore.save, GraphStore.load)


def _tensor(array: Array) -> Tensor:
    """Integers as int64, real numbers as float32."""
    dtype = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32
    return torch.from_numpy(array.astype(dtype))
