"""Random topologies with a given number of nodes: every class, alone and in unions."""

import numpy as np

import chimera_ssm as chimera
from tests import zoo

ACYCLIC = ("line", "line reversed", "grid dag", "dag", "complete dag", "shuffled path", "acyclic graph", "arborescence")
CYCLIC = (
    "undirected line", "grid", "graph", "directed graph", "directed graph with loops", "graph with loops", "tree",
    "ring", "star", "sparse graph", "undirected path in disorder", "loops alone", "molecule",
)  # fmt: skip
EDGELESS = ("no edges", "no edges, acyclic")


def draw_sizes(rng, largest=500):
    """Numbers of nodes of the parts of a union; one number for a topology that is not a union."""
    if rng.random() < 0.6:
        return (_draw_size(rng, largest),)
    count = rng.choice([1, 2, 3, 5, 9])
    return tuple(_draw_size(rng, max(1, min(60, largest // count))) for _ in range(count))


def _draw_size(rng, largest):
    low, high = ((1, 3), (4, 20), (16, 65), (64, 160), (160, 500))[rng.choice(5, p=[0.17, 0.38, 0.3, 0.13, 0.02])]
    size = int(rng.integers(low, high + 1))
    if rng.random() < 0.3:
        size = -(-size // 16) * 16
    return min(size, largest)


def draw_topology(rng, sizes, kinds):
    """A topology whose parts have these sizes; a union if there are several, sometimes if there is one."""
    mixed = rng.random() < 0.5
    kind = rng.choice(kinds)
    parts = [draw_part(rng, size, rng.choice(kinds) if mixed else kind) for size in sizes]
    return parts[0] if len(parts) == 1 and rng.random() < 0.8 else chimera.batch(parts)


def draw_part(rng, n, kind):
    """One topology of the given kind with n nodes."""
    seed = int(rng.integers(1 << 30))
    links = int(rng.integers(0, 3 * n + 1))
    nodes = rng.permutation(n)
    match kind:
        case "line" | "line reversed":
            return chimera.Line(n, reverse=kind == "line reversed")
        case "undirected line":
            return chimera.UndirectedLine(n, reverse=bool(rng.integers(2)))
        case "grid dag":
            shape = _draw_shape(rng, n)
            return chimera.GridDAG(shape, [int(c) for c in rng.integers(0, 2, len(shape))])
        case "grid":
            return chimera.Grid(_draw_shape(rng, n), reverse=bool(rng.integers(2)))
        case "dag":
            return zoo.random_dag(n, links, seed)
        case "complete dag":
            return zoo.complete_dag(n) if n <= 80 else zoo.random_dag(n, 20 * n, seed)
        case "shuffled path":
            return chimera.DAG(n, np.stack([nodes[:-1], nodes[1:]]))
        case "acyclic graph":
            return chimera.Graph(n, zoo.random_dag(n, links, seed).edge_index)
        case "arborescence":
            child = np.arange(1, n)
            return chimera.DAG(n, nodes[np.stack([(rng.random(n - 1) * child).astype(int), child])])
        case "graph" | "sparse graph":
            return zoo.random_graph(n, n // 3 if kind == "sparse graph" else links, seed)
        case "graph with loops":
            return zoo.random_graph(n, links, seed, loops=True)
        case "directed graph" | "directed graph with loops":
            return zoo.random_graph(n, links, seed, directed=True, loops=kind.endswith("loops"))
        case "tree":
            return zoo.random_tree(n, seed)
        case "molecule":
            return zoo.molecule(n, seed) if n > 5 else zoo.random_tree(n, seed)
        case "ring":
            return chimera.Graph(n, np.stack([nodes, np.roll(nodes, 1)]))
        case "star":
            ends = np.stack([np.full(n - 1, nodes[0]), nodes[1:]])
            return chimera.Graph(n, np.concatenate([ends, ends[::-1]], axis=1))
        case "undirected path in disorder":
            ends = np.stack([nodes[:-1], nodes[1:]])
            return chimera.Graph(n, rng.permutation(np.concatenate([ends, ends[::-1]], axis=1), axis=1))
        case "loops alone":
            return chimera.Graph(n, np.stack([nodes, nodes])[:, : 1 + n // 2])
        case "no edges":
            return chimera.Graph(n, np.empty((2, 0), int))
        case "no edges, acyclic":
            return chimera.DAG(n, np.empty((2, 0), int))
    raise ValueError(f"no kind of topology is called {kind!r}")


def _draw_shape(rng, n):
    """Sizes of one to four axes whose product is n."""
    shape = [n]
    for _ in range(rng.integers(1, 4)):
        divisors = [d for d in range(1, shape[-1] + 1) if shape[-1] % d == 0]
        d = int(rng.choice(divisors))
        shape[-1:] = [d, shape[-1] // d]
    return [int(s) for s in rng.permutation(shape)]
