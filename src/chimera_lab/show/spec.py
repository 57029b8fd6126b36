"""Topologies given as text: ``grid:4x5``, ``smiles:CCO``, a file of edges."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chimera_lab.data.files import read_lines
from chimera_lab.data.molecules import molecule_graph
from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import DAG, Graph, Grid, Line, Topology, UndirectedLine

MAX_NODES = 400
_KINDS = "line:8, sequence:8, grid:4x5, ring:6, tree:15, smiles:CCO, or a file with one edge per line"


def parse_topology(spec: str) -> Topology:
    """The topology that a text describes.

    ``line:T`` is undirected, ``sequence:T`` one way; ``grid:HxW`` may have any number of axes; ``ring:T`` is a cycle;
    ``tree:T`` is binary; ``smiles:…`` is a molecule; anything else is a file, see `read_edges`.
    """
    kind, _, rest = spec.partition(":")
    if kind in _BUILD and rest:
        found = _BUILD[kind](rest)
    elif Path(spec).is_file():
        found = read_edges(Path(spec))
    else:
        raise ValueError(f"there is no topology and no file {spec!r}; a topology is {_KINDS}")
    if found.num_nodes > MAX_NODES:
        raise ValueError(f"{spec} has {found.num_nodes:,} nodes, too many to draw: at most {MAX_NODES}")
    return found


def read_edges(path: Path) -> Topology:
    """The graph of a file with one edge per line: ``a b`` or ``a -- b`` both ways, ``a -> b`` one way.

    Nodes are numbers from 0 on; ``#`` starts a comment. A graph without cycles becomes a `DAG`.
    """
    edges: dict[tuple[int, int], None] = {}
    for number, line in read_lines(path):
        text = line.partition("#")[0].strip()
        found = re.fullmatch(r"(\d+)\s*(->|--|,|\s)\s*(\d+)", text)
        if text and not found:
            raise ValueError(f"{path}, line {number}: expected an edge such as 0 1 or 0 -> 1, found {text!r}")
        if found:
            a, b = int(found[1]), int(found[3])
            edges |= {(a, b): None} if found[2] == "->" else {(a, b): None, (b, a): None}
    if not edges:
        raise ValueError(f"{path} has no edges: write one on each line, such as 0 1 or 0 -> 1")
    listed, num_nodes = np.array(list(edges)).T, 1 + max(max(edge) for edge in edges)
    if num_nodes > MAX_NODES:  # before the graph is analysed
        raise ValueError(f"{path} has nodes up to {num_nodes - 1:,}, too many to draw: at most {MAX_NODES}")
    graph = Graph(num_nodes, listed)
    return DAG(num_nodes, listed) if graph.is_acyclic else graph


def _size(text: str) -> int:
    if not text.isdigit():
        raise TopologyError(f"a size is a whole number, found {text!r}")
    return int(text)


def _grid(text: str) -> Topology:
    return Grid([_size(side) for side in text.split("x")])


def _ring(text: str) -> Topology:
    T = _size(text)
    if T < 3:
        raise TopologyError(f"a ring has at least 3 nodes, found {T}")
    return _undirected(T, [(k, (k + 1) % T) for k in range(T)])


def _tree(text: str) -> Topology:
    return _undirected(_size(text), [((k - 1) // 2, k) for k in range(1, _size(text))])


def _smiles(text: str) -> Topology:
    x, edges, _ = molecule_graph(text)
    return Graph(len(x), edges)


def _undirected(num_nodes: int, links: list[tuple[int, int]]) -> Topology:
    pairs = np.array(links, int).reshape(-1, 2)
    return Graph(num_nodes, np.concatenate([pairs, pairs[:, ::-1]]).T)


_BUILD: dict[str, Callable[[str], Topology]] = {
    "line": lambda text: UndirectedLine(_size(text)),
    "sequence": lambda text: Line(_size(text)),
    "grid": _grid,
    "ring": _ring,
    "tree": _tree,
    "smiles": _smiles,
}
