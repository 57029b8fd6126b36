"""Walks over all edges, node by node: kernels on adjacency lists, as `traversal.neighbours` makes them.

Imported only where one is needed, since Numba comes with it.
"""

import numpy as np

from chimera_ssm.cpu.compilation import kernel


@kernel
def longest_paths(pointer, heads, waiting):
    """Length of the longest path that ends in each node, −1 on a cycle and behind one, ``[T]``.

    ``waiting [T]`` is the number of edges that lead to each node, and is used up.
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
    """Steps from the nearest of ``roots``, −1 where none leads, ``[T]``."""
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
