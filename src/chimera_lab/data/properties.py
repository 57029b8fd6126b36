"""Distances in random graphs: shortest paths from a source, eccentricity, diameter.

From the multi-task benchmark of PNA (Corso et al. 2020) are the ten families of graphs with their frequencies and
parameters, the random changes of edges, the refusal of graphs with isolated nodes, the features (a one-hot source and a
uniform random number), and what stands for missing paths. From the experiments of A-DGN (Gravina et al. 2023), which
train a model for each property, are the sizes, 25 to 35 nodes and 5,120, 640 and 1,280 graphs; division of the labels
by their maximum in the training part; and the metric, log₁₀ of the mean squared error. The random numbers are others
than theirs. Sizes are uniform from 25 to 35 in each part, where PNA's generator takes 25 to 34 for training and 25 to
29 for validation and test. The graphs of the three properties are the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chimera_lab.data.graph_store import GraphSample, GraphStore, cached_store
from chimera_lab.data.random import seed_of

Array = np.ndarray
Random = np.random.Generator

SMALLEST, LARGEST = 25, 35
COUNTS = {"train": 5120, "val": 640, "test": 1280}
#: An edge remains with this probability.
REMAINS = 0.9
#: Part of the key of cached graphs; to be increased when the graphs change.
_VERSION = 1


def properties(name: str) -> dict[str, GraphStore]:
    """Training, validation and test graphs, by ``"train"``, ``"val"`` and ``"test"``.

    Args:
        name: ``properties:distance``, the shortest path of each node to the source; ``properties:eccentricity``, the
            longest of the shortest paths of each node; or ``properties:diameter``, the longest in the graph.
    """
    target = name.removeprefix("properties:")
    if target not in TARGETS:
        raise ValueError(
            f"properties of graphs are named {', '.join(f'properties:{t}' for t in TARGETS)}; found {name!r}"
        )
    stores = {
        part: cached_store(f"properties-{part}", repr((_VERSION, target, count)).encode(), _maker(target, part, count))
        for part, count in COUNTS.items()
    }
    largest = stores["train"].arrays["y"].max()
    for store in stores.values():
        store.arrays["y"] = store.arrays["y"] / largest
    return stores


def _maker(target: str, part: str, count: int) -> Callable[[], GraphStore]:
    return lambda: GraphStore.of([sample(target, part, k) for k in range(count)])


def sample(target: str, part: str, index: int) -> GraphSample:
    """A graph with features ``[T, 2]`` and undivided labels, ``[T, 1]`` or ``[1, 1]``; a function of the arguments.

    Paths are counted in edges. A node that the source does not reach has distance 0, and eccentricity and diameter are
    those within connected components, as in the benchmark.
    """
    random = np.random.default_rng(seed_of("properties", part, index))
    size = int(random.integers(SMALLEST, LARGEST + 1))
    adjacency = draw_graph(size, random)
    source = int(random.integers(size))
    x = np.stack([np.arange(size) == source, random.random(size)], axis=1).astype(np.float32)
    y = TARGETS[target](distances(adjacency), source)
    return GraphSample(x, np.stack(adjacency.nonzero()), None, y.astype(np.float32)[:, None])


def distances(adjacency: Array) -> Array:
    """Numbers of edges of all shortest paths, ``[T, T]``, infinite where there is none: Floyd's and Warshall's."""
    D = np.where(adjacency, 1.0, np.inf)
    np.fill_diagonal(D, 0)
    for k in range(len(D)):
        D = np.minimum(D, D[:, k, None] + D[k])
    return D


def _distance(D: Array, source: int) -> Array:
    return np.where(np.isfinite(D[source]), D[source], 0)


def _eccentricity(D: Array, source: int) -> Array:
    return np.where(np.isfinite(D), D, 0).max(1)


def _diameter(D: Array, source: int) -> Array:
    return _eccentricity(D, source).max(keepdims=True)


TARGETS = {"distance": _distance, "eccentricity": _eccentricity, "diameter": _diameter}


def draw_graph(size: int, random: Random) -> Array:
    """Adjacency ``bool [T, T]``, symmetric, of a graph of a random family whose edges were changed at random.

    Graphs with isolated nodes are drawn again, from the same family.
    """
    weights, families = zip(*FAMILIES.values(), strict=True)
    family = families[random.choice(len(families), p=weights)]
    while True:
        adjacency = np.zeros((size, size), bool)
        order = random.permutation(size)
        source, target = order[np.array(family(size, random), int).reshape(-1, 2).T]
        adjacency[source, target] = adjacency[target, source] = True
        adjacency = changed(adjacency, random)
        if adjacency.any(0).all():
            return adjacency


def changed(adjacency: Array, random: Random) -> Array:
    """The graph without some of its edges and with some others, as the code of the benchmark changes it.

    With e edges and m missing ones, an edge remains if s < p, and a missing one appears if s < q, where

        p = 0.9, q = 0.1 e / m        if e ≤ m        p = 1 − 0.1 m / e, q = 0.1        otherwise

    and s is the sum of two uniform numbers between 0 and ½. So an edge disappears with probability 2 (1 − p)², not
    1 − p, and a missing one appears with 2 q².
    """
    size = len(adjacency)
    edges = adjacency.sum() / 2
    missing = size * (size - 1) / 2 - edges
    if edges <= missing:
        remains, appears = REMAINS, (1 - REMAINS) * edges / missing
    else:
        remains, appears = 1 - (1 - REMAINS) * missing / edges, 1 - REMAINS
    draws = random.random((size, size)) / 2
    draws = draws + draws.T
    result = np.where(adjacency, draws < remains, draws < appears)
    np.fill_diagonal(result, False)
    return result


def _erdos_renyi(size: int, random: Random) -> Array:
    """Each pair is joined with the same probability, which is uniform between 0 and 1."""
    pairs = np.stack(np.triu_indices(size, 1), axis=1)
    return pairs[random.random(len(pairs)) < random.random()]


def _barabasi_albert(size: int, random: Random) -> list[tuple[int, int]]:
    """A star of m + 1 nodes, then nodes joined to m others by preferential attachment, m uniform in 1 … T − 1."""
    m = int(random.integers(1, size))
    edges = [(0, k) for k in range(1, m + 1)]
    for node in range(m + 1, size):
        ends, others = np.array(edges).ravel(), set()
        while len(others) < m:  # each in proportion to its degree
            others.add(int(random.choice(ends)))
        edges += [(node, other) for other in sorted(others)]
    return edges


def _rows(size: int) -> int:
    """The largest divisor up to the square root."""
    return max(k for k in range(1, int(size**0.5) + 1) if size % k == 0)


def _grid(size: int, random: Random) -> list[tuple[int, int]]:
    """As square as its size allows."""
    columns = size // _rows(size)
    across = [(k, k + 1) for k in range(size) if (k + 1) % columns]
    return across + [(k, k + columns) for k in range(size - columns)]


def _caveman(size: int, random: Random) -> list[tuple[int, int]]:
    """Cliques that are not joined, as many as a grid has rows."""
    columns = size // _rows(size)
    return [(j, k) for k in range(size) for j in range(k - k % columns, k)]


def _tree(size: int, random: Random) -> list[tuple[int, int]]:
    """A tree whose degrees follow a power law with exponent 3: a path of the inner nodes, and leaves at them."""
    degrees = np.zeros(size, int)
    while degrees.sum() != 2 * (size - 1):
        degrees = np.round(1 + random.pareto(2, size)).astype(int)
    inner = int((degrees > 1).sum())
    missing = np.sort(degrees)[::-1][:inner] - 2
    missing[[0, -1]] += 1  # the ends of the path
    return [*_line(inner, random), *zip(np.repeat(np.arange(inner), missing), range(inner, size), strict=True)]


def _ladder(size: int, random: Random) -> list[tuple[int, int]]:
    """Two paths joined by rungs; if the size is odd, one more node at the first."""
    half = size // 2
    steps = _line(half, random)
    rest = [(0, size - 1)] if size % 2 else []
    return [*steps, *((j + half, k + half) for j, k in steps), *((k, k + half) for k in range(half)), *rest]


def _line(size: int, random: Random) -> list[tuple[int, int]]:
    return [(k, k + 1) for k in range(size - 1)]


def _star(size: int, random: Random) -> list[tuple[int, int]]:
    return [(0, k) for k in range(1, size)]


def _caterpillar(size: int, random: Random) -> list[tuple[int, int]]:
    """A path of uniformly drawn length, the other nodes joined to nodes of it."""
    length = int(random.integers(1, size))
    return [*_line(length, random), *((k, int(random.integers(length))) for k in range(length, size))]


def _lobster(size: int, random: Random) -> list[tuple[int, int]]:
    """A path, some nodes joined to it, and the remaining ones to those."""
    length = int(random.integers(1, size))
    near = int(random.integers(length + 1, size + 1))
    return [
        *_line(length, random),
        *((k, int(random.integers(length))) for k in range(length, near)),
        *((k, int(random.integers(length, near))) for k in range(near, size)),
    ]


#: Frequency of each family, and its edges.
FAMILIES = {
    "erdos-renyi": (0.2, _erdos_renyi),
    "barabasi-albert": (0.2, _barabasi_albert),
    "grid": (0.05, _grid),
    "caveman": (0.05, _caveman),
    "tree": (0.15, _tree),
    "ladder": (0.05, _ladder),
    "line": (0.05, _line),
    "star": (0.05, _star),
    "caterpillar": (0.1, _caterpillar),
    "lobster": (0.1, _lobster),
}
