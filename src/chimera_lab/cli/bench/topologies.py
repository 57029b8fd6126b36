"""Topologies to measure on, by size; each function returns the topologies that one `mix` sums over."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import chimera_ssm as chimera

if TYPE_CHECKING:
    from numpy import ndarray

    from chimera_ssm import Topology


@cache
def line_both_ways(num_nodes: int) -> tuple[Topology, ...]:
    """The line forward and the line backward."""
    return chimera.UndirectedLine(num_nodes).dags()


@cache
def undirected_line(num_nodes: int) -> tuple[Topology, ...]:
    """The undirected line."""
    return (chimera.UndirectedLine(num_nodes),)


@cache
def grid_dags(*shape: int) -> tuple[Topology, ...]:
    """The DAGs of a grid, one from each corner."""
    return chimera.Grid(shape).dags()


@cache
def molecules(count: int, num_nodes: int) -> tuple[Topology, ...]:
    """A union of molecule-like graphs: chains with branches, and a ring for every fifteen nodes."""
    return (chimera.batch([_undirected(num_nodes, _bonds(num_nodes, seed)) for seed in range(count)]),)


@cache
def planar_graphs(count: int, num_nodes: int) -> tuple[Topology, ...]:
    """A union of Delaunay triangulations of random points, numbered at random."""
    return (chimera.batch([_undirected(num_nodes, _triangulation(num_nodes, seed)) for seed in range(count)]),)


def _bonds(num_nodes: int, seed: int) -> ndarray:
    import numpy as np

    rng = np.random.default_rng(seed)
    atom = np.arange(1, num_nodes)
    chain = np.stack([atom, np.maximum(0, atom - 1 - rng.integers(0, 3, atom.size))], axis=1)
    closing = rng.integers(5, num_nodes, num_nodes // 15)
    return np.concatenate([chain, np.stack([closing, closing - 5], axis=1)])


def _triangulation(num_nodes: int, seed: int) -> ndarray:
    import numpy as np
    from matplotlib.tri import Triangulation

    return Triangulation(*np.random.default_rng(seed).random((2, num_nodes))).edges


def _undirected(num_nodes: int, links: ndarray) -> Topology:
    import numpy as np

    return chimera.Graph(num_nodes, np.unique(np.concatenate([links, links[:, ::-1]]), axis=0).T)
