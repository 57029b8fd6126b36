"""Topologies that every solver and layer is tested on, and weights for them; awkward sizes on purpose."""

import numpy as np
import torch

import chimera_ssm as chimera


def random_graph(num_nodes, links, seed=0, directed=False, loops=False):
    """A random graph; some of its nodes are isolated, some of its parts disconnected."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, num_nodes, (links, 2))
    pairs = pairs if directed else np.concatenate([pairs, pairs[:, ::-1]])
    pairs = pairs if loops else pairs[pairs[:, 0] != pairs[:, 1]]
    edges = np.unique(pairs, axis=0)
    return chimera.Graph(num_nodes, rng.permutation(edges).T)


def random_dag(num_nodes, links, seed=0):
    """A random DAG whose nodes are not in topological order."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, num_nodes, (links, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    return chimera.DAG(num_nodes, rng.permutation(num_nodes)[rng.permutation(pairs).T])


def random_tree(num_nodes, seed=0):
    """A random undirected tree."""
    rng = np.random.default_rng(seed)
    child = np.arange(1, num_nodes)
    parent = (rng.random(num_nodes - 1) * child).astype(int)
    links = rng.permutation(num_nodes)[np.stack([child, parent])]
    return chimera.Graph(num_nodes, np.concatenate([links, links[::-1]], axis=1))


def molecule(num_nodes, seed=0):
    """A chain with branches and a ring for every fifteen nodes."""
    rng = np.random.default_rng(seed)
    links = [(i, max(0, i - 1 - rng.integers(0, 3))) for i in range(1, num_nodes)]
    links += [(i, i - 5) for i in rng.integers(5, num_nodes, num_nodes // 15)]
    edges = np.unique(np.concatenate([links, np.array(links)[:, ::-1]]), axis=0)
    return chimera.Graph(num_nodes, edges.T)


def complete_dag(num_nodes):
    """An edge from every node to every later one."""
    return chimera.DAG(num_nodes, np.stack(np.triu_indices(num_nodes, 1)))


ACYCLIC = {
    "line 1": chimera.Line(1),
    "line 2": chimera.Line(2),
    "line 63": chimera.Line(63),
    "line 100": chimera.Line(100),
    "line 100 reversed": chimera.Line(100, reverse=True),
    "lines": chimera.batch([chimera.Line(5), chimera.Line(1), chimera.Line(40, reverse=True), chimera.Line(33)]),
    "grid dag 1x7": chimera.GridDAG((1, 7)),
    "grid dag 7x1": chimera.GridDAG((7, 1), (1, 1)),
    "grid dag 5x8": chimera.GridDAG((5, 8), (1, 0)),
    "grid dag 3x4x5": chimera.GridDAG((3, 4, 5), (0, 1, 1)),
    "grid dags": chimera.batch([chimera.GridDAG((3, 4)), chimera.GridDAG((1, 1)), chimera.GridDAG((4, 2), (0, 1))]),
    "dag 63": random_dag(63, 150),
    "dag with isolated nodes": random_dag(40, 20, seed=1),
    "complete dag": complete_dag(40),
    "shuffled path": chimera.DAG(4, [[2, 0, 3], [0, 3, 1]]),
    "acyclic graph": chimera.Graph(5, [[0, 0, 1, 2], [1, 2, 3, 3]]),
}

CYCLIC = {
    "undirected line 2": chimera.UndirectedLine(2),
    "undirected line 63": chimera.UndirectedLine(63),
    "undirected line 100": chimera.UndirectedLine(100),
    "undirected line flipped": chimera.UndirectedLine(9).flip(),
    "undirected lines": chimera.batch([chimera.UndirectedLine(n) for n in (4, 1, 50)]),
    "undirected path in disorder": chimera.Graph(4, [[2, 0, 0, 3, 3, 1], [0, 2, 3, 0, 1, 3]]),
    "grid 1x6": chimera.Grid((1, 6)),
    "grid 4x6": chimera.Grid((4, 6)),
    "grid 2x3x4": chimera.Grid((2, 3, 4)),
    "tree 63": random_tree(63),
    "graph 100": random_graph(100, 160),
    "graph disconnected": random_graph(30, 18, seed=1),
    "directed graph with loops": random_graph(40, 60, seed=2, directed=True, loops=True),
    "triangle": chimera.Graph(3, [[0, 1, 2], [1, 2, 0]]),
    "self-loop alone": chimera.Graph(2, [[1], [1]]),
    "molecule": molecule(50),
    "graphs": chimera.batch([random_graph(10, 14), chimera.Graph(1, np.empty((2, 0), int)), molecule(25)]),
    "dense graph": random_graph(20, 300, seed=4),
}

OTHERS = {
    "undirected line 1": chimera.UndirectedLine(1),
    "no edges": chimera.Graph(5, np.empty((2, 0), int)),
}

ZOO = ACYCLIC | CYCLIC | OTHERS


def bounded_weights(topology, *lead, dtype=torch.float64, seed=0):
    """Weights of both signs, some zero, with absolute row sums below 0.95, ``[*lead, E]``."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(*lead, topology.num_edges, generator=generator, dtype=torch.float64) * 2 - 1
    weight[..., ::7] = 0
    degree = topology.in_degree.clamp(min=1)[topology.edge_index[1]]
    return (0.95 * weight / degree).to(dtype)
