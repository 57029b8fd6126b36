"""Slow definitions, and graphs for properties that hold on any."""

import functools

import numpy as np
from hypothesis import strategies as st

from tests import zoo


@st.composite
def dags(draw):
    num_nodes = draw(st.integers(1, 20))
    return zoo.random_dag(num_nodes, draw(st.integers(0, 3 * num_nodes)), draw(st.integers(0, 10_000)))


@st.composite
def graphs(draw, directed=None):
    num_nodes = draw(st.integers(1, 20))
    return zoo.random_graph(
        num_nodes,
        draw(st.integers(0, 2 * num_nodes)),
        draw(st.integers(0, 10_000)),
        directed=draw(st.booleans()) if directed is None else directed,
        loops=draw(st.booleans()),
    )


def pairs(topology):
    return list(map(tuple, topology.edge_index.T.tolist()))


def slow_levels(topology):
    parents = {node: [] for node in range(topology.num_nodes)}
    for source, target in pairs(topology):
        parents[target].append(source)

    @functools.cache
    def level(node):
        return max((level(parent) + 1 for parent in parents[node]), default=0)

    return [level(node) for node in range(topology.num_nodes)]


def slow_longest_path(topology):
    """Largest k for which there is a walk of k edges."""
    step = np.zeros((topology.num_nodes, topology.num_nodes))
    step[tuple(topology.edge_index.numpy())] = 1
    walks, length = step, 0
    while walks.any():
        walks, length = np.minimum(walks @ step, 1), length + 1
    return length


def slow_distances(topology):
    """Floyd and Warshall; infinite where no path leads."""
    distance = np.full((topology.num_nodes, topology.num_nodes), np.inf)
    distance[tuple(topology.edge_index.numpy())] = 1
    np.fill_diagonal(distance, 0)
    for via in range(topology.num_nodes):
        distance = np.minimum(distance, distance[:, via, None] + distance[None, via])
    return distance


def slow_diameter(topology):
    distance = slow_distances(topology)
    return distance[np.isfinite(distance)].max()


def slow_components(topology):
    """Smallest node of each node's component, by merging sets; and the number of links that close a cycle."""
    sets = {node: {node} for node in range(topology.num_nodes)}
    closing = 0
    for a, b in {(min(edge), max(edge)) for edge in pairs(topology) if edge[0] != edge[1]}:
        if sets[a] is sets[b]:
            closing += 1
            continue
        sets[a] |= sets[b]
        for node in sets[b]:
            sets[node] = sets[a]
    return [min(sets[node]) for node in range(topology.num_nodes)], closing
