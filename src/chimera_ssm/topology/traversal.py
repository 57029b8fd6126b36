"""Traversals of a graph, on NumPy arrays of integers: levels, cycles, components, paths, distances, diameter.

Every function takes ``num_nodes`` and the edges ``source[e] → target[e]``.
"""

import numpy as np

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology.csr import csr

Array = np.ndarray

#: Above this number of nodes the diameter is bounded instead of computed.
EXACT_DIAMETER_NODES = 20_000
#: Memory of the bit sets in `largest_distance`.
_REACH_BYTES = 1 << 26


def neighbours(num_nodes: int, source: Array, target: Array) -> tuple[Array, Array]:
    """Adjacency lists: the successors of node ``v`` are ``heads[begin[v] : begin[v + 1]]``."""
    begin, order = csr(source, num_nodes)
    return begin, target[order]


def levels(num_nodes: int, source: Array, target: Array) -> Array:
    """Length of the longest path that ends in each node of an acyclic graph, ``[T]``."""
    from chimera_ssm.topology.search import longest_paths

    waiting = np.bincount(target, minlength=num_nodes)
    level = longest_paths(*neighbours(num_nodes, source, target), waiting)
    if (level < 0).any():
        cycle = " → ".join(map(str, find_cycle(source, target, level < 0)))
        raise TopologyError(
            f"a DAG has no cycles, but the edges contain {cycle}; remove one of them, or use Graph, which allows cycles"
        )
    return level


def find_cycle(source: Array, target: Array, unfinished: Array) -> list[int]:
    """Nodes of one cycle, the first repeated at the end. Each node of ``unfinished`` has a predecessor in it."""
    inside = unfinished[source] & unfinished[target]
    predecessor = dict(zip(target[inside].tolist(), source[inside].tolist(), strict=True))
    trail, node = {}, next(iter(predecessor))
    while node not in trail:
        trail[node] = len(trail)
        node = predecessor[node]
    loop = list(trail)[trail[node] :]
    return [node, *reversed(loop)]


def components(num_nodes: int, source: Array, target: Array) -> Array:
    """Label each node with the smallest node of its weakly connected component, ``[T]``."""
    label = np.arange(num_nodes)
    while True:
        merged, low = label.copy(), np.minimum(label[source], label[target])
        np.minimum.at(merged, label[source], low)
        np.minimum.at(merged, label[target], low)
        while not np.array_equal(merged, merged[merged]):
            merged = merged[merged]
        if np.array_equal(merged, label):
            return label
        label = merged


def is_forest(num_nodes: int, source: Array, target: Array) -> bool:
    """Whether the undirected graph without self-loops has no cycle."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    links = _count_distinct(low[low != high] * num_nodes + high[low != high])
    return links < num_nodes and links == num_nodes - _count_distinct(components(num_nodes, source, target))


def distances(num_nodes: int, source: Array, target: Array, roots: Array) -> Array:
    """Distance from the nearest of ``roots`` along the edges, −1 for unreachable nodes, ``[T]``."""
    from chimera_ssm.topology.search import steps_from

    return steps_from(*neighbours(num_nodes, source, target), np.asarray(roots))


def directed_paths(num_nodes: int, source: Array, target: Array) -> Array | None:
    """Nodes of a graph of disjoint directed paths, one path after another; ``None`` for any other graph."""
    if not _at_most_one(source) or not _at_most_one(target) or (source == target).any():
        return None
    following = np.full(num_nodes, -1, dtype=np.int64)
    following[source] = target
    starts = np.flatnonzero(np.bincount(target, minlength=num_nodes) == 0)
    return _walk(num_nodes, starts, following.tolist())


def undirected_paths(num_nodes: int, source: Array, target: Array) -> Array | None:
    """Nodes of a graph whose undirected edges form disjoint paths, one after another; ``None`` for any other graph."""
    if (source == target).any() or not is_forest(num_nodes, source, target):
        return None
    links: list[list[int]] = [[] for _ in range(num_nodes)]
    for low, high in {(min(p), max(p)) for p in zip(source.tolist(), target.tolist(), strict=True)}:
        links[low].append(high)
        links[high].append(low)
    if max(map(len, links)) > 2:
        return None
    order: list[int] = []
    seen = [False] * num_nodes
    for start in range(num_nodes):
        node = start if len(links[start]) < 2 and not seen[start] else -1
        while node >= 0:
            seen[node] = True
            order.append(node)
            node = next((n for n in links[node] if not seen[n]), -1)
    return np.array(order)


def largest_distance(num_nodes: int, source: Array, target: Array) -> int:
    """Largest finite distance between two nodes: breadth-first searches from all nodes at once, 64 per machine word."""
    keep = source != target
    source, target = source[keep], target[keep]
    if not source.size:
        return 0
    by_target = np.argsort(target, kind="stable")
    source, (reached, first) = source[by_target], np.unique(target[by_target], return_index=True)
    words = max(1, _REACH_BYTES // (8 * source.size))
    return max(
        _largest_distance_from(num_nodes, source, reached, first, np.arange(start, min(start + 64 * words, num_nodes)))
        for start in range(0, num_nodes, 64 * words)
    )


def diameter_bound(num_nodes: int, source: Array, target: Array) -> int:
    """An upper bound of the diameter of an undirected graph: twice the eccentricity of a node of each component."""
    roots = np.unique(components(num_nodes, source, target))
    return 2 * int(distances(num_nodes, source, target, roots).max())


def _largest_distance_from(num_nodes: int, source: Array, reached: Array, first: Array, roots: Array) -> int:
    """Number of rounds until nothing new is reached; bit ``r`` of a row says whether root ``r`` reaches the node."""
    bits = np.zeros((num_nodes, -(-roots.size // 64)), dtype=np.uint64)
    local = np.arange(roots.size)
    bits[roots, local // 64] = np.uint64(1) << (local % 64).astype(np.uint64)
    rounds = 0
    while True:
        updated = bits[reached] | np.bitwise_or.reduceat(bits[source], first, axis=0)
        if np.array_equal(updated, bits[reached]):
            return rounds
        bits[reached] = updated
        rounds += 1


def _at_most_one(nodes: Array) -> bool:
    return int(np.bincount(nodes).max(initial=0)) <= 1


def _count_distinct(numbers: Array) -> int:
    """By sorting: NumPy's `unique` uses a hash table, which is ten times slower on millions of close numbers."""
    ordered = np.sort(numbers)
    return min(1, ordered.size) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _walk(num_nodes: int, starts: Array, following: list[int]) -> Array | None:
    order: list[int] = []
    for node in starts.tolist():
        while node >= 0:
            order.append(node)
            node = following[node]
    return np.array(order) if len(order) == num_nodes else None
