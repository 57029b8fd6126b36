"""Which node to eliminate next: approximate minimum degree on a quotient graph; and what an order fills in.

Kernels on flat arrays of integers. Imported only where an order is needed, since Numba comes with it.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.topology.jit import kernel

Array = np.ndarray


class Quotient(NamedTuple):
    """What is left of a graph in the course of its elimination, ``[T]`` each but for the pool.

    An eliminated node is an *element*: the nodes that it touched at that moment, which stand for a clique without its
    edges. Nodes that touch the same nodes are merged: one stands for all, and they go together.

    Attributes:
        pool: a list for each node, first the elements it is in, then the nodes it is linked to; and for each element,
            the nodes in it. Some of what is listed may be gone.
        start: where each list begins.
        length: of each list; 0 for what is gone.
        elements: how many of a node's list are elements.
        weight: nodes that a node stands for; 0 once it is gone.
        degree: bound of the nodes that a node touches, but for those merged with it; number of nodes in an element.
        outside: number of these that the pivot does not touch.
        touched: last step whose pivot touched a node.
        seen: last step that saw an element.
        following: the next of the nodes that go together; −1 after the last.
        last: the last of these.
        code: equal for nodes with equal lists.
        bucket: a node with each code; −1 for none.
        chain: another with the same code; −1 for none.
        flag: for comparing lists.
    """

    pool: Array
    start: Array
    length: Array
    elements: Array
    weight: Array
    degree: Array
    outside: Array
    touched: Array
    seen: Array
    following: Array
    last: Array
    code: Array
    bucket: Array
    chain: Array
    flag: Array


class Queue(NamedTuple):
    """Nodes by degree: doubly linked lists, ``[T]`` each.

    Attributes:
        head: first node of each degree, −1 for none.
        tail: last node of each degree.
        next: the node after each, −1 for none.
        previous: the node before each.
        degree: under which each is queued.
    """

    head: Array
    tail: Array
    next: Array
    previous: Array
    degree: Array


@kernel
def best_order(begin, links, limit):
    """The better of two orders by minimum degree: of equal nodes the oldest first, which suits long and thin graphs, or
    the youngest first, which suits flat ones; and the number of entries, as in `minimum_degree`."""
    order, entries = minimum_degree(begin, links, limit, False)
    if entries > begin.size - 1 + links.size:  # there is fill
        other, fewer = minimum_degree(begin, links, min(limit, entries - 1), True)
        if fewer < entries:
            return other, fewer
    return order, entries


@kernel
def minimum_degree(begin, links, limit, youngest):
    """Nodes in the order of their elimination, ``[T]``, and how many entries L + U + D have at least.

    Node v is linked to ``links[begin[v] : begin[v + 1]]``, and these to it; none to itself. Stops when there must be
    more than ``limit`` entries; the order is then of no use.
    """
    T = begin.size - 1
    g, queue = quotient(begin, links), empty_queue(T)
    for v in range(T):
        append(queue, v, g.degree[v], youngest)
    order, done, aside, entries, step, top = np.empty(T, np.int64), 0, T, T, 0, links.size
    dense = max(16, int(10 * np.sqrt(T)))  # lists that are too long to be read again and again: their nodes go last
    while done < aside:
        pivot = take(queue)
        if top > g.pool.size - T:
            top = compact(g)
        stop = gather(g, pivot, top, step)
        if stop - top > 1:
            for k in range(top, stop):
                if g.length[g.pool[k]] > dense:
                    aside = set_aside(g, g.pool[k], order, aside)
            survey(g, top, stop, step)
            for k in range(top, stop):
                if g.weight[g.pool[k]] > 0:
                    refine(g, g.pool[k], pivot, step)
            merge(g, top, stop, step)
        elif stop - top == 1:  # a leaf: nothing changes but a degree
            g.degree[g.pool[top]] -= g.weight[pivot]
        nodes = g.weight[pivot]
        done = write(g, pivot, order, done)
        stop, size = settle(g, queue, pivot, top, stop, aside - done, youngest)
        entries += nodes * (nodes - 1 + 2 * size)
        if entries + size * (size - 1) > limit:
            return order, entries + size * (size - 1)
        top, step = stop, step + 1
    return order, entries


@kernel
def quotient(begin, links):
    """The graph before anything is eliminated, and room for two more lists as long as all of these."""
    T, count = begin.size - 1, np.diff(begin)
    pool = np.concatenate((links, np.empty(links.size + T, np.int64)))
    return Quotient(
        pool, begin[:-1].copy(), count, np.zeros(T, np.int64), np.ones(T, np.int64), count.copy(), np.zeros(T, np.int64),
        np.full(T, -1), np.full(T, -1), np.full(T, -1), np.arange(T), np.zeros(T, np.int64), np.full(T, -1),
        np.full(T, -1), np.full(T, -1),
    )  # fmt: skip


@kernel
def gather(g, pivot, top, step):
    """List what ``pivot`` touches from ``top`` on; the elements it is in are part of this one from now on."""
    g.touched[pivot] = step
    begin, middle, end = g.start[pivot], g.start[pivot] + g.elements[pivot], g.start[pivot] + g.length[pivot]
    for k in range(begin, middle):
        e = g.pool[k]
        top = touch(g, g.start[e], g.start[e] + g.length[e], top, step)
        g.length[e] = 0
    return touch(g, middle, end, top, step)


@kernel
def touch(g, begin, end, top, step):
    """List those of the nodes ``begin`` to ``end`` of the pool that are there and have not been listed in this step."""
    for k in range(begin, end):
        v = g.pool[k]
        if g.weight[v] > 0 and g.touched[v] != step:
            g.touched[v] = step
            g.pool[top] = v
            top += 1
    return top


@kernel
def set_aside(g, v, order, aside):
    """Forget a node, and all that go with it, until the others are eliminated."""
    for k in range(g.start[v], g.start[v] + g.elements[v]):
        g.degree[g.pool[k]] -= g.weight[v]
    aside -= g.weight[v]
    write(g, v, order, aside)
    return aside


@kernel
def survey(g, top, stop, step):
    """Count the nodes of each element that are not among those touched."""
    for k in range(top, stop):
        v = g.pool[k]
        for q in range(g.start[v], g.start[v] + g.elements[v]):
            e = g.pool[q]
            if g.seen[e] != step:
                g.seen[e] = step
                g.outside[e] = g.degree[e]
            g.outside[e] -= g.weight[v]


@kernel
def refine(g, v, pivot, step):
    """Strike out of the list of ``v`` what the element of ``pivot`` covers, and enter this; or let both go together."""
    begin, middle, end = g.start[v], g.start[v] + g.elements[v], g.start[v] + g.length[v]
    keep, bound, code = begin, 0, 0
    for k in range(begin, middle):
        e = g.pool[k]
        if g.outside[e] == 0:
            g.length[e] = 0
        if g.length[e] > 0:
            g.pool[keep] = e
            keep, bound, code = keep + 1, bound + g.outside[e], code + e
    elements = keep
    for k in range(middle, end):
        u = g.pool[k]
        if g.weight[u] > 0 and g.touched[u] != step:
            g.pool[keep] = u
            keep, bound, code = keep + 1, bound + g.weight[u], code + u
    if keep == begin:
        join(g, pivot, v)
    else:
        g.pool[keep] = g.pool[elements]
        g.pool[elements] = pivot
        g.elements[v], g.length[v] = elements + 1 - begin, keep + 1 - begin
        g.degree[v], g.code[v] = min(g.degree[v], bound), code % g.code.size


@kernel
def join(g, one, other):
    """Let two nodes go together."""
    g.weight[one] += g.weight[other]
    g.weight[other] = g.length[other] = 0
    g.following[g.last[one]] = other
    g.last[one] = g.last[other]


@kernel
def merge(g, top, stop, step):
    """Join nodes with equal lists."""
    for k in range(top, stop):
        v = g.pool[k]
        if g.weight[v] > 0:
            flag = step * g.flag.size + v
            for q in range(g.start[v], g.start[v] + g.length[v]):
                g.flag[g.pool[q]] = flag
            u = g.bucket[g.code[v]]
            while u >= 0 and not alike(g, u, v, flag):
                u = g.chain[u]
            if u >= 0:
                join(g, u, v)
            else:
                g.chain[v], g.bucket[g.code[v]] = g.bucket[g.code[v]], v
    for k in range(top, stop):
        g.bucket[g.code[g.pool[k]]] = -1


@kernel
def alike(g, u, v, flag):
    """Whether the list of ``u`` is that of ``v``, which is flagged."""
    if g.length[u] != g.length[v] or g.elements[u] != g.elements[v]:
        return False
    for k in range(g.start[u], g.start[u] + g.length[u]):
        if g.flag[g.pool[k]] != flag:
            return False
    return True


@kernel
def write(g, v, order, place):
    """Write a node and those that go with it into the order; they are gone."""
    g.weight[v] = g.length[v] = 0
    while v >= 0:
        order[place] = v
        place, v = place + 1, g.following[v]
    return place


@kernel
def settle(g, queue, pivot, top, stop, left, youngest):
    """Make an element of the nodes that are still there, and queue those whose degree is another; its end and size."""
    keep, size = top, 0
    for k in range(top, stop):
        v = g.pool[k]
        if g.weight[v] > 0:
            g.pool[keep] = v
            keep, size = keep + 1, size + g.weight[v]
        else:
            remove(queue, v)
    g.start[pivot], g.length[pivot], g.degree[pivot] = top, keep - top, size
    for k in range(top, keep):
        v = g.pool[k]
        g.degree[v] = min(g.degree[v] + size, left) - g.weight[v]
        if g.degree[v] != queue.degree[v]:
            remove(queue, v)
            append(queue, v, g.degree[v], youngest)
    return keep, size


@kernel
def compact(g):
    """Move all lists together; where they end."""
    top = 0
    for v in np.argsort(g.start):
        begin, g.start[v] = g.start[v], top
        for k in range(begin, begin + g.length[v]):
            g.pool[top] = g.pool[k]
            top += 1
    return top


@kernel
def empty_queue(T):
    """A queue for T nodes."""
    return Queue(np.full(T, -1), np.full(T, -1), np.full(T, -1), np.full(T, -1), np.full(T, -1))


@kernel
def append(queue, v, degree, in_front):
    """Queue a node behind all others of its degree, or in front of them."""
    before, after = (-1, queue.head[degree]) if in_front else (queue.tail[degree], -1)
    queue.degree[v] = degree
    connect(queue, before, v, degree)
    connect(queue, v, after, degree)


@kernel
def remove(queue, v):
    """Take a node out of the queue."""
    connect(queue, queue.previous[v], queue.next[v], queue.degree[v])


@kernel
def connect(queue, before, after, degree):
    """Let one node follow another; −1 stands for the end of the list on either side."""
    if before < 0:
        queue.head[degree] = after
    else:
        queue.next[before] = after
    if after < 0:
        queue.tail[degree] = before
    else:
        queue.previous[after] = before


@kernel
def take(queue):
    """Take the first node of the least degree."""
    degree = 0
    while queue.head[degree] < 0:
        degree += 1
    v = queue.head[degree]
    remove(queue, v)
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
