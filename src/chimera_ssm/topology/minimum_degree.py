"""Approximate minimum degree ordering on a quotient graph (Amestoy, Davis and Duff 1996), and its fill.

P. R. Amestoy, T. A. Davis, I. S. Duff: An approximate minimum degree ordering algorithm. SIAM J. Matrix Anal. Appl.
17(4), 1996. Kernels on flat arrays of integers, imported on first use, because Numba is slow to import.

The quotient graph has two kinds of vertices. A *variable* is a node that is not eliminated yet. An *element* is an
eliminated pivot: the list of its adjacent variables, which stands for a clique without storing its edges.
Indistinguishable variables (with the same adjacency) are merged into a *supervariable*, represented by one of them, the
principal variable, and eliminated together. A variable that is adjacent to the new element alone is eliminated with the
pivot (*mass elimination*). Elements adjacent to the pivot are part of the new one (*element absorption*).

Each variable has a list in ``pool``, first of its adjacent elements, then of its adjacent variables; each element has a
list of its variables. Lists may contain absorbed elements and merged variables. Everything else is in the columns of
``g [T, 19]``: one array, because Numba passes one argument faster than many.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import kernel

Array = np.ndarray

#: Of variables and elements: start of the list; its length (0 if absorbed or merged); the number of elements in it;
#: size of the supervariable (0 if not principal); approximate external degree, or number of nodes of an element.
START, LENGTH, ELEMENTS, WEIGHT, DEGREE = 0, 1, 2, 3, 4
#: Last step in which a variable was adjacent to the pivot, and an element was scanned; |Lₑ \ Lₚ| in that step.
TOUCHED, SEEN, OUTSIDE = 5, 6, 7
#: Nodes of a supervariable: the next one, the last one.
FOLLOWING, LAST = 8, 9
#: Hash table of supervariable detection, T buckets: hash of a list, first variable of a bucket, next variable, a mark.
CODE, BUCKET, CHAIN, FLAG = 10, 11, 12, 13
#: Degree lists: first and last variable of each degree; next and previous variable; degree under which one is listed.
HEAD, TAIL, NEXT, PREVIOUS, QUEUED = 14, 15, 16, 17, 18


@kernel
def adjacency_lists(num_nodes, source, target):
    """Neighbours of node v in the undirected graph, ascending, no self-loops: ``links[begin[v] : begin[v + 1]]``."""
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
            if place[b] == first[b] or links[place[b] - 1] != a:  # no duplicates
                links[place[b]] = a
                place[b] += 1
    begin = np.zeros(num_nodes + 1, np.int64)
    for v in range(num_nodes):
        begin[v + 1] = begin[v] + place[v] - first[v]
        links[begin[v] : begin[v + 1]] = links[first[v] : place[v]]
    return begin, links[: begin[-1]].copy()


@kernel
def best_order(begin, links, limit):
    """The better of two minimum-degree orderings, and the numbers of entries, as in `minimum_degree`.

    They break ties differently: first in, first out, better for long and thin graphs, or last in, first out, better for
    meshes.
    """
    order, entries, filled = minimum_degree(begin, links, limit, False)
    if entries > begin.size - 1 + links.size:  # there is fill
        other, fewer, full = minimum_degree(begin, links, min(limit, entries - 1), True)
        if fewer < entries:
            return other, fewer, full
    return order, entries, filled


@kernel
def minimum_degree(begin, links, limit, lifo):
    """Nodes in elimination order, ``[T]``, and a lower and an upper bound of the number of entries of L + U + D.

    The neighbours of node v are ``links[begin[v] : begin[v + 1]]``, as `adjacency_lists` returns them. Stops once there
    must be more than ``limit`` entries; the ordering is then incomplete, and the upper bound assumes that all remaining
    nodes are adjacent. Otherwise both bounds are equal.
    """
    T = begin.size - 1
    g, pool = quotient_graph(begin, links)
    for v in range(T):
        enqueue(g, v, lifo)
    order, done, end, entries, step, top = np.empty(T, np.int64), 0, T, T, 0, links.size
    dense = max(16, int(10 * np.sqrt(T)))  # variables with longer lists, which are slow to scan, are ordered end
    while done < end:
        pivot = pop_minimum(g)
        if top > pool.size - T:
            top = compact(g, pool)
        stop = form_element(g, pool, pivot, top, step)
        if stop - top > 1:
            scan_elements(g, pool, top, stop, step)
            for k in range(top, stop):
                update_variable(g, pool, pool[k], pivot, step)
                if g[pool[k], LENGTH] > dense:
                    end = defer(g, pool, pool[k], order, end)
            detect_supervariables(g, pool, top, stop, step)
        elif stop - top == 1:  # a leaf: only one degree changes
            g[pool[top], DEGREE] -= g[pivot, WEIGHT]
        nodes = g[pivot, WEIGHT]
        done = append_nodes(g, pivot, order, done)
        stop, size = finish_element(g, pool, pivot, top, stop, end - done, lifo)
        entries += nodes * (nodes - 1 + 2 * size)
        if entries + size * (size - 1) > limit:
            return order, entries + size * (size - 1), entries + (T - done) * (T - done - 1)
        top, step = stop, step + 1
    return order, entries, entries


@kernel
def quotient_graph(begin, links):
    """The quotient graph before the first elimination; the lists together never need more space than at the start."""
    g = np.full((begin.size - 1, 19), -1)
    g[:, START], g[:, LENGTH], g[:, DEGREE] = begin[:-1], np.diff(begin), np.diff(begin)
    g[:, ELEMENTS], g[:, WEIGHT], g[:, CODE], g[:, LAST] = 0, 1, 0, np.arange(begin.size - 1)
    return g, np.concatenate((links, np.empty(links.size + begin.size - 1, np.int64)))


@kernel
def form_element(g, pool, pivot, top, step):
    """List the variables adjacent to ``pivot`` from ``top`` on: the new element, which absorbs adjacent elements."""
    g[pivot, TOUCHED] = step
    begin = g[pivot, START]
    for k in range(begin, begin + g[pivot, ELEMENTS]):
        e = pool[k]
        top = append_neighbours(g, pool, g[e, START], g[e, START] + g[e, LENGTH], top, step)
        g[e, LENGTH] = 0
    return append_neighbours(g, pool, begin + g[pivot, ELEMENTS], begin + g[pivot, LENGTH], top, step)


@kernel
def append_neighbours(g, pool, begin, end, top, step):
    """Append the principal variables in ``pool[begin:end]`` that have not been listed in this step."""
    for k in range(begin, end):
        v = pool[k]
        if g[v, WEIGHT] > 0 and g[v, TOUCHED] != step:
            g[v, TOUCHED] = step
            pool[top] = v
            top += 1
    return top


@kernel
def scan_elements(g, pool, top, stop, step):
    """Compute |Lₑ \\ Lₚ| of each element e: its nodes that are not in the new element."""
    for k in range(top, stop):
        v = pool[k]
        for q in range(g[v, START], g[v, START] + g[v, ELEMENTS]):
            e = pool[q]
            if g[e, SEEN] != step:
                g[e, SEEN] = step
                g[e, OUTSIDE] = g[e, DEGREE]
            g[e, OUTSIDE] -= g[v, WEIGHT]


@kernel
def update_variable(g, pool, v, pivot, step):
    """Update list and approximate external degree of ``v``; mass elimination if only the new element is adjacent to it.

    Elements without nodes outside the new one are absorbed (aggressive absorption), variables inside it are pruned.
    """
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
        merge_into(g, pivot, v)
    else:
        pool[keep] = pool[elements]
        pool[elements] = pivot
        g[v, ELEMENTS], g[v, LENGTH] = elements + 1 - begin, keep + 1 - begin
        g[v, DEGREE], g[v, CODE] = min(g[v, DEGREE], bound), code % len(g)


@kernel
def merge_into(g, one, other):
    """Merge two supervariables into the first."""
    g[one, WEIGHT] += g[other, WEIGHT]
    g[other, WEIGHT] = g[other, LENGTH] = 0
    g[g[one, LAST], FOLLOWING] = other
    g[one, LAST] = g[other, LAST]


@kernel
def defer(g, pool, v, order, end):
    """Order a dense supervariable last."""
    for k in range(g[v, START], g[v, START] + g[v, ELEMENTS]):
        g[pool[k], DEGREE] -= g[v, WEIGHT]
    end -= g[v, WEIGHT]
    append_nodes(g, v, order, end)
    return end


@kernel
def detect_supervariables(g, pool, top, stop, step):
    """Merge indistinguishable variables of the new element: those with equal lists, found by a hash."""
    for k in range(top, stop):
        v = pool[k]
        if g[v, WEIGHT] > 0:
            flag = step * len(g) + v
            for q in range(g[v, START], g[v, START] + g[v, LENGTH]):
                g[pool[q], FLAG] = flag
            u = g[g[v, CODE], BUCKET]
            while u >= 0 and not indistinguishable(g, pool, u, v, flag):
                u = g[u, CHAIN]
            if u >= 0:
                merge_into(g, u, v)
            else:
                g[v, CHAIN], g[g[v, CODE], BUCKET] = g[g[v, CODE], BUCKET], v
    for k in range(top, stop):
        g[g[pool[k], CODE], BUCKET] = -1


@kernel
def indistinguishable(g, pool, u, v, flag):
    """Whether the list of ``u`` equals that of ``v``, whose items are marked with ``flag``."""
    k, end = g[u, START], g[u, START] + g[u, LENGTH]
    if g[u, LENGTH] != g[v, LENGTH] or g[u, ELEMENTS] != g[v, ELEMENTS]:
        return False
    while k < end and g[pool[k], FLAG] == flag:
        k += 1
    return k == end


@kernel
def append_nodes(g, v, order, place):
    """Append the nodes of a supervariable to the ordering."""
    g[v, WEIGHT] = g[v, LENGTH] = 0
    while v >= 0:
        order[place] = v
        place, v = place + 1, g[v, FOLLOWING]
    return place


@kernel
def finish_element(g, pool, pivot, top, stop, left, lifo):
    """Remove merged variables from the new element, and update degrees; returns the end of its list and its size."""
    keep, size = top, 0
    for k in range(top, stop):
        v = pool[k]
        if g[v, WEIGHT] > 0:
            pool[keep] = v
            keep, size = keep + 1, size + g[v, WEIGHT]
        else:
            dequeue(g, v)
    g[pivot, START], g[pivot, LENGTH], g[pivot, DEGREE] = top, keep - top, size
    for k in range(top, keep):
        v = pool[k]
        g[v, DEGREE] = min(g[v, DEGREE] + size, left) - g[v, WEIGHT]
        if g[v, DEGREE] != g[v, QUEUED]:
            dequeue(g, v)
            enqueue(g, v, lifo)
    return keep, size


@kernel
def compact(g, pool):
    """Remove the gaps between lists; returns where the last one ends."""
    top = 0
    for v in np.argsort(g[:, START]):
        begin, g[v, START] = g[v, START], top
        for k in range(begin, begin + g[v, LENGTH]):
            pool[top] = pool[k]
            top += 1
    return top


@kernel
def enqueue(g, v, at_front):
    """Insert a variable at the end of its degree list, or at the front."""
    degree = g[v, DEGREE]
    before, after = (-1, g[degree, HEAD]) if at_front else (g[degree, TAIL], -1)
    g[v, QUEUED] = degree
    link(g, before, v, degree)
    link(g, v, after, degree)


@kernel
def dequeue(g, v):
    """Remove a variable from its degree list."""
    link(g, g[v, PREVIOUS], g[v, NEXT], g[v, QUEUED])


@kernel
def link(g, before, after, degree):
    """Let one variable follow another in a degree list; −1 stands for either end."""
    if before < 0:
        g[degree, HEAD] = after
    else:
        g[before, NEXT] = after
    if after < 0:
        g[degree, TAIL] = before
    else:
        g[after, PREVIOUS] = before


@kernel
def pop_minimum(g):
    """Remove and return the first variable of minimum degree, the next pivot."""
    degree = 0
    while g[degree, HEAD] < 0:
        degree += 1
    v = g[degree, HEAD]
    dequeue(g, v)
    return v


class Tree(NamedTuple):
    """An elimination tree by ranks in the elimination ordering, ``[T]`` each.

    Attributes:
        rank: of each node.
        parent: row of the first entry below the diagonal in each column of L, −1 for none.
        count: number of these entries.
        level: length of the longest path from a leaf to each rank.
    """

    rank: Array
    parent: Array
    count: Array
    level: Array


@kernel
def elimination_tree(begin, links, order, limit):
    """The elimination tree (Liu 1990) and the number of entries of L + U + D; stops if these exceed ``limit``.

    Row i of L has entries in all columns on the paths in the tree from the earlier neighbours of node i to i.
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
