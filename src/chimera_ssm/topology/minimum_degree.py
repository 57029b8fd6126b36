"""Which node to eliminate next: approximate minimum degree on a quotient graph; and what an order fills in.

Kernels on flat arrays of integers. Imported only where an order is needed, since Numba comes with it.

What is left of a graph in the course of its elimination is a quotient graph. An eliminated node is an *element*: the
nodes that it touched at that moment, which stand for a clique without its edges. Nodes that touch the same nodes are
merged: one stands for all, and they go together. Each node has a list in ``pool``, first of the elements it is in, then
of the nodes it is linked to; and each element has one of the nodes in it. Some of what is listed may be gone. All else
is in the columns of ``g [T, 19]``: one array, since Numba passes one faster than many.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import kernel

Array = np.ndarray

#: Of nodes and elements: where the list begins, how long it is (0 for what is gone), how much of it are elements; nodes
#: that a node stands for (0 for what is gone); a bound of the nodes it touches, or the number of nodes in an element.
START, LENGTH, ELEMENTS, WEIGHT, DEGREE = 0, 1, 2, 3, 4
#: Last step that touched a node, and that saw an element; how many nodes of an element were not touched in it.
TOUCHED, SEEN, OUTSIDE = 5, 6, 7
#: Nodes that go together: the next of them, the last of them.
FOLLOWING, LAST = 8, 9
#: Nodes with equal lists are found by a code, of which there are T: a node with that code, another one, a flag.
CODE, BUCKET, CHAIN, FLAG = 10, 11, 12, 13
#: The queue: first and last node of each degree; node after and before each, and the degree under which it is queued.
HEAD, TAIL, NEXT, PREVIOUS, QUEUED = 14, 15, 16, 17, 18


@kernel
def linked(num_nodes, source, target):
    """Neighbours of node v, ascending, directions and self-loops forgotten: ``links[begin[v] : begin[v + 1]]``."""
    count = np.zeros(num_nodes + 1, np.int64)
    for e in range(source.size):
        if source[e] != target[e]:
            count[source[e] + 1] += 1
            count[target[e] + 1] += 1
    first = np.cumsum(count)
    place, unsorted = first.copy(), np.empty(first[-1], np.int64)
    for e in range(source.size):
        for a, b in ((source[e], target[e]), (target[e], source[e])):
            if a != b:
                unsorted[place[a]] = b
                place[a] += 1
    place, links = first.copy(), np.empty(first[-1], np.int64)
    for a in range(num_nodes):
        for k in range(first[a], first[a + 1]):
            b = unsorted[k]
            if place[b] == first[b] or links[place[b] - 1] != a:  # not given twice
                links[place[b]] = a
                place[b] += 1
    begin = np.zeros(num_nodes + 1, np.int64)
    for v in range(num_nodes):
        begin[v + 1] = begin[v] + place[v] - first[v]
        links[begin[v] : begin[v + 1]] = links[first[v] : place[v]]
    return begin, links[: begin[-1]].copy()


@kernel
def best_order(begin, links, limit):
    """The better of two orders by minimum degree, and the numbers of entries, as in `minimum_degree`.

    Of equal nodes the oldest goes first, which suits long and thin graphs, or the youngest, which suits flat ones.
    """
    order, entries, filled = minimum_degree(begin, links, limit, False)
    if entries > begin.size - 1 + links.size:  # there is fill
        other, fewer, full = minimum_degree(begin, links, min(limit, entries - 1), True)
        if fewer < entries:
            return other, fewer, full
    return order, entries, filled


@kernel
def minimum_degree(begin, links, limit, youngest):
    """Nodes in the order of their elimination, ``[T]``, and how many entries L + U + D have at least and at most.

    Node v is linked to ``links[begin[v] : begin[v + 1]]``, and these to it; none to itself. Stops when there must be
    more than ``limit`` entries; the order is then of no use, and at most all nodes that are left touch each other.
    """
    T = begin.size - 1
    g, pool = quotient(begin, links)
    for v in range(T):
        queue(g, v, youngest)
    order, done, aside, entries, step, top = np.empty(T, np.int64), 0, T, T, 0, links.size
    dense = max(16, int(10 * np.sqrt(T)))  # nodes with longer lists go last: to read these again and again is too much
    while done < aside:
        pivot = take(g)
        if top > pool.size - T:
            top = compact(g, pool)
        stop = gather(g, pool, pivot, top, step)
        if stop - top > 1:
            survey(g, pool, top, stop, step)
            for k in range(top, stop):
                refine(g, pool, pool[k], pivot, step)
                if g[pool[k], LENGTH] > dense:
                    aside = set_aside(g, pool, pool[k], order, aside)
            merge(g, pool, top, stop, step)
        elif stop - top == 1:  # a leaf: nothing changes but a degree
            g[pool[top], DEGREE] -= g[pivot, WEIGHT]
        nodes = g[pivot, WEIGHT]
        done = write(g, pivot, order, done)
        stop, size = settle(g, pool, pivot, top, stop, aside - done, youngest)
        entries += nodes * (nodes - 1 + 2 * size)
        if entries + size * (size - 1) > limit:
            return order, entries + size * (size - 1), entries + (T - done) * (T - done - 1)
        top, step = stop, step + 1
    return order, entries, entries


@kernel
def quotient(begin, links):
    """The graph before anything is eliminated; lists never need more room together than in the beginning."""
    g = np.full((begin.size - 1, 19), -1)
    g[:, START], g[:, LENGTH], g[:, DEGREE] = begin[:-1], np.diff(begin), np.diff(begin)
    g[:, ELEMENTS], g[:, WEIGHT], g[:, CODE], g[:, LAST] = 0, 1, 0, np.arange(begin.size - 1)
    return g, np.concatenate((links, np.empty(links.size + begin.size - 1, np.int64)))


@kernel
def gather(g, pool, pivot, top, step):
    """List what ``pivot`` touches from ``top`` on; the elements it is in are part of this one from now on."""
    g[pivot, TOUCHED] = step
    begin = g[pivot, START]
    for k in range(begin, begin + g[pivot, ELEMENTS]):
        e = pool[k]
        top = touch(g, pool, g[e, START], g[e, START] + g[e, LENGTH], top, step)
        g[e, LENGTH] = 0
    return touch(g, pool, begin + g[pivot, ELEMENTS], begin + g[pivot, LENGTH], top, step)


@kernel
def touch(g, pool, begin, end, top, step):
    """List those of the nodes ``begin`` to ``end`` of the pool that are there and have not been listed in this step."""
    for k in range(begin, end):
        v = pool[k]
        if g[v, WEIGHT] > 0 and g[v, TOUCHED] != step:
            g[v, TOUCHED] = step
            pool[top] = v
            top += 1
    return top


@kernel
def survey(g, pool, top, stop, step):
    """Count the nodes of each element that are not among those touched."""
    for k in range(top, stop):
        v = pool[k]
        for q in range(g[v, START], g[v, START] + g[v, ELEMENTS]):
            e = pool[q]
            if g[e, SEEN] != step:
                g[e, SEEN] = step
                g[e, OUTSIDE] = g[e, DEGREE]
            g[e, OUTSIDE] -= g[v, WEIGHT]


@kernel
def refine(g, pool, v, pivot, step):
    """Strike out of the list of ``v`` what the element of ``pivot`` covers, and enter this; or let both go together."""
    begin, middle, end = g[v, START], g[v, START] + g[v, ELEMENTS], g[v, START] + g[v, LENGTH]
    keep, bound, code = begin, 0, 0
    for k in range(begin, middle):
        e = pool[k]
        if g[e, OUTSIDE] == 0:
            g[e, LENGTH] = 0
        if g[e, LENGTH] > 0:
            pool[keep] = e
            keep, bound, code = keep + 1, bound + g[e, OUTSIDE], code + e
    elements = keep
    for k in range(middle, end):
        u = pool[k]
        if g[u, WEIGHT] > 0 and g[u, TOUCHED] != step:
            pool[keep] = u
            keep, bound, code = keep + 1, bound + g[u, WEIGHT], code + u
    if keep == begin:
        join(g, pivot, v)
    else:
        pool[keep] = pool[elements]
        pool[elements] = pivot
        g[v, ELEMENTS], g[v, LENGTH] = elements + 1 - begin, keep + 1 - begin
        g[v, DEGREE], g[v, CODE] = min(g[v, DEGREE], bound), code % len(g)


@kernel
def join(g, one, other):
    """Let two nodes go together."""
    g[one, WEIGHT] += g[other, WEIGHT]
    g[other, WEIGHT] = g[other, LENGTH] = 0
    g[g[one, LAST], FOLLOWING] = other
    g[one, LAST] = g[other, LAST]


@kernel
def set_aside(g, pool, v, order, aside):
    """Write a node, and all that go with it, at the end of the order."""
    for k in range(g[v, START], g[v, START] + g[v, ELEMENTS]):
        g[pool[k], DEGREE] -= g[v, WEIGHT]
    aside -= g[v, WEIGHT]
    write(g, v, order, aside)
    return aside


@kernel
def merge(g, pool, top, stop, step):
    """Join nodes with equal lists."""
    for k in range(top, stop):
        v = pool[k]
        if g[v, WEIGHT] > 0:
            flag = step * len(g) + v
            for q in range(g[v, START], g[v, START] + g[v, LENGTH]):
                g[pool[q], FLAG] = flag
            u = g[g[v, CODE], BUCKET]
            while u >= 0 and not alike(g, pool, u, v, flag):
                u = g[u, CHAIN]
            if u >= 0:
                join(g, u, v)
            else:
                g[v, CHAIN], g[g[v, CODE], BUCKET] = g[g[v, CODE], BUCKET], v
    for k in range(top, stop):
        g[g[pool[k], CODE], BUCKET] = -1


@kernel
def alike(g, pool, u, v, flag):
    """Whether the list of ``u`` is that of ``v``, which is flagged."""
    k, end = g[u, START], g[u, START] + g[u, LENGTH]
    if g[u, LENGTH] != g[v, LENGTH] or g[u, ELEMENTS] != g[v, ELEMENTS]:
        return False
    while k < end and g[pool[k], FLAG] == flag:
        k += 1
    return k == end


@kernel
def write(g, v, order, place):
    """Write a node and those that go with it into the order; they are gone."""
    g[v, WEIGHT] = g[v, LENGTH] = 0
    while v >= 0:
        order[place] = v
        place, v = place + 1, g[v, FOLLOWING]
    return place


@kernel
def settle(g, pool, pivot, top, stop, left, youngest):
    """Make an element of the nodes that are still there, and queue those whose degree is another; its end and size."""
    keep, size = top, 0
    for k in range(top, stop):
        v = pool[k]
        if g[v, WEIGHT] > 0:
            pool[keep] = v
            keep, size = keep + 1, size + g[v, WEIGHT]
        else:
            remove(g, v)
    g[pivot, START], g[pivot, LENGTH], g[pivot, DEGREE] = top, keep - top, size
    for k in range(top, keep):
        v = pool[k]
        g[v, DEGREE] = min(g[v, DEGREE] + size, left) - g[v, WEIGHT]
        if g[v, DEGREE] != g[v, QUEUED]:
            remove(g, v)
            queue(g, v, youngest)
    return keep, size


@kernel
def compact(g, pool):
    """Move all lists together; where they end."""
    top = 0
    for v in np.argsort(g[:, START]):
        begin, g[v, START] = g[v, START], top
        for k in range(begin, begin + g[v, LENGTH]):
            pool[top] = pool[k]
            top += 1
    return top


@kernel
def queue(g, v, in_front):
    """Queue a node behind all others of its degree, or in front of them."""
    degree = g[v, DEGREE]
    before, after = (-1, g[degree, HEAD]) if in_front else (g[degree, TAIL], -1)
    g[v, QUEUED] = degree
    connect(g, before, v, degree)
    connect(g, v, after, degree)


@kernel
def remove(g, v):
    """Take a node out of the queue."""
    connect(g, g[v, PREVIOUS], g[v, NEXT], g[v, QUEUED])


@kernel
def connect(g, before, after, degree):
    """Let one node follow another in the queue; −1 stands for the end on either side."""
    if before < 0:
        g[degree, HEAD] = after
    else:
        g[before, NEXT] = after
    if after < 0:
        g[degree, TAIL] = before
    else:
        g[after, PREVIOUS] = before


@kernel
def take(g):
    """Take the first node of the least degree."""
    degree = 0
    while g[degree, HEAD] < 0:
        degree += 1
    v = g[degree, HEAD]
    remove(g, v)
    return v


class Tree(NamedTuple):
    """An elimination tree by ranks in the order of elimination, ``[T]`` each.

    Attributes:
        rank: of each node.
        parent: the first of the later ranks that eliminating this one touches, −1 for none.
        count: number of these, entries of a column of L.
        level: longest path that leads up to each rank.
    """

    rank: Array
    parent: Array
    count: Array
    level: Array


@kernel
def elimination_tree(begin, links, order, limit):
    """The elimination tree, and how many entries L + U + D have; stops when these are more than ``limit``.

    Row i of L has entries in all columns on the way from the earlier of its links up the tree to i.
    """
    T, entries = order.size, order.size
    tree = Tree(np.empty(T, np.int64), np.full(T, -1), np.zeros(T, np.int64), np.zeros(T, np.int64))
    tree.rank[order] = np.arange(T)
    reached = np.full(T, -1)
    for i in range(T):
        for k in range(begin[order[i]], begin[order[i] + 1]):
            j = tree.rank[links[k]]
            while j < i and reached[j] != i:
                if tree.parent[j] < 0:
                    tree.parent[j] = i
                    tree.level[i] = max(tree.level[i], tree.level[j] + 1)
                reached[j], entries = i, entries + 2
                tree.count[j] += 1
                j = tree.parent[j]
        if entries > limit:
            break
    return tree, entries


@kernel
def rows_of_columns(begin, links, order, tree):
    """Rows of the entries of L, ascending, column after column, ``[F]``."""
    T, place = order.size, np.cumsum(tree.count) - tree.count
    reached, row = np.full(T, -1), np.empty(tree.count.sum(), np.int64)
    for i in range(T):
        for k in range(begin[order[i]], begin[order[i] + 1]):
            j = tree.rank[links[k]]
            while j < i and reached[j] != i:
                reached[j], row[place[j]] = i, i
                place[j] += 1
                j = tree.parent[j]
    return row
