"""Breadth-first kernels on adjacency lists, see `traversal.neighbours`.

Imported on first use, because Numba is slow to import.
"""

import numpy as np

from chimera_ssm.cpu.compilation import kernel


@kernel
def longest_paths(pointer, heads, waiting):
    """Length of the longest path that ends in each node, −1 on cycles and after them, ``[T]`` (Kahn 1962).

    ``waiting [T]`` is the in-degree of each node, and is overwritten.
    """
    level, queue, last = np.zeros(waiting.size, np.int64), np.empty(waiting.size, np.int64), 0
    for v in range(waiting.size):
        if waiting[v] == 0:
            queue[last] = v
            last += 1
    first = 0
    while first < last:
        v = queue[first]
        first += 1
        for e in range(pointer[v], pointer[v + 1]):
            u = heads[e]
            level[u] = max(level[u], level[v] + 1)
            waiting[u] -= 1
            if waiting[u] == 0:
                queue[last] = u
                last += 1
    for v in range(waiting.size):
        if waiting[v] > 0:
            level[v] = -1
    return level


@kernel
def steps_from(pointer, heads, roots):
    """Distance from the nearest of ``roots``, −1 for unreachable nodes, ``[T]``."""
    distance, queue, last = np.full(pointer.size - 1, -1), np.empty(pointer.size - 1, np.int64), 0
    for root in roots:
        if distance[root] < 0:
            distance[root], queue[last] = 0, root
            last += 1
    first = 0
    while first < last:
        v = queue[first]
        first += 1
        for e in range(pointer[v], pointer[v + 1]):
            u = heads[e]
            if distance[u] < 0:
                distance[u], queue[last] = distance[v] + 1, u
                last += 1
    return distance
