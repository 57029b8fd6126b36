"""Sparse LU without pivoting: factors ``I − A = L D U``, and solves with them.

Arrays, with all leading dimensions in H: weights ``[H, E]``; −L and −U off their unit diagonals, row by row,
``[H, F]``; D⁻¹ ``[H, T]``. Rows and columns are ranks of an `LUPlan`.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import (
    WIDTH,
    aligned,
    at,
    fma,
    largest,
    load,
    load_8,
    put,
    room,
    splat,
    splat_8,
    store,
    store_past,
)

LANES = 8
#: Columns of a row of the inverse that are summed at once.
WINDOW = 32
#: Bytes of a part's inverse that stay in a second-level cache beside its L⁻¹.
_CACHED = 1 << 17


@kernel
def factorize(first, last, plan, weight, lower, upper, inverse, growth):
    """Factors of I − A, row after row, for tasks ``first`` to ``last``: a part, and eight heads as lanes of vectors.

    Row i of I − A is spread out over ``row``. For its entries k < i in order, what the rows before have left there is
    L[i, k] D[k]; that times row k of U is taken from what is to the right. ``growth [H, parts]`` is the largest
    magnitude of entries of ``L D`` and ``D U`` and of the products that are taken away.
    """
    (heads, edges), entries, nodes = weight.shape, lower.shape[1], inverse.shape[1]
    groups = -(-heads // LANES)
    zero, one, lane = splat_8(weight.dtype.type(0)), splat_8(weight.dtype.type(1)), np.empty(LANES, weight.dtype)
    for task in range(first, last):
        p, head = task // groups, task % groups * LANES
        lanes = min(LANES, heads - head)
        begin, end, origin = plan.part[p], plan.part[p + 1], plan.lower_begin[plan.part[p]]
        row = np.zeros((end - begin, LANES), weight.dtype)
        pivot = np.empty((end - begin, LANES), weight.dtype)
        U = np.empty((plan.lower_begin[end] - origin, LANES), weight.dtype)
        edge_origin = plan.edge_begin[begin]
        edge_weight = np.zeros((plan.edge_begin[end] - edge_origin, LANES), weight.dtype)
        peak = np.empty((end - begin, LANES), weight.dtype)  # the largest entry of each row of U
        grown = zero
        for e in range(edge_origin, plan.edge_begin[end]):
            for l in range(lanes):
                put(edge_weight, LANES * (e - edge_origin) + l, at(weight, (head + l) * edges + at(plan.edge, e)))
        for i in range(begin, end):
            here = LANES * (i - begin)
            for e in range(at(plan.edge_begin, i), at(plan.edge_begin, i + 1)):
                o = LANES * (at(plan.edge_column, e) - begin)
                store(row, o, zero - load_8(edge_weight, LANES * (e - edge_origin)))
            store(row, here, load_8(row, here) + one)
            for q in range(at(plan.lower_begin, i), at(plan.lower_begin, i + 1)):
                k = at(plan.lower_column, q)
                left = load_8(row, LANES * (k - begin))
                store(row, LANES * (k - begin), zero)
                grown = largest(left * load_8(peak, LANES * (k - begin)), grown)
                for r in range(at(plan.upper_begin, k), at(plan.upper_begin, k + 1)):
                    o = LANES * (at(plan.upper_column, r) - begin)
                    store(row, o, load_8(row, o) + left * load_8(U, LANES * (r - origin)))
                store(lane, 0, zero - left * load_8(pivot, LANES * (k - begin)))
                deal(lane, lower, head * entries + q, entries, lanes)
            diagonal, top = load_8(row, here), one
            store(lane, 0, one / diagonal)
            store(pivot, here, load_8(lane, 0))
            store(row, here, zero)
            deal(lane, inverse, head * nodes + i, nodes, lanes)
            for r in range(at(plan.upper_begin, i), at(plan.upper_begin, i + 1)):
                o = LANES * (at(plan.upper_column, r) - begin)
                store(lane, 0, zero - load_8(row, o) * load_8(pivot, here))
                store(row, o, zero)
                store(U, LANES * (r - origin), load_8(lane, 0))
                top = largest(load_8(lane, 0), top)
                deal(lane, upper, head * entries + r, entries, lanes)
            store(peak, here, top)
            grown = largest(diagonal * top, grown)
        store(lane, 0, grown)
        deal(lane, growth, head * growth.shape[1] + p, growth.shape[1], lanes)


@inlined
def deal(lane, out, o, stride, lanes):
    """Hand out the lanes of a vector to heads, ``stride`` apart."""
    for l in range(lanes):
        put(out, o + l * stride, at(lane, l))


@kernel
def solve(first, last, width, plan, ahead, back, inverse, rhs, head_stride, row_stride, x):
    """``x = (I − A)⁻¹ rhs``, ``[H, T, K]``, for tasks: a head, a part and ``width`` columns, a multiple of 16, each.

    ``ahead, back`` are the factors L and U, or their transposes the other way round. ``rhs`` is flat, its elements
    at ``head_stride``, ``row_stride`` and 1.
    """
    _, nodes, K = x.shape
    parts, blocks = plan.part.size - 1, -(-K // width)
    block = room(plan.largest * width, x.dtype)
    for task in range(first, last):
        head, p, c = task // (parts * blocks), task // blocks % parts, task % blocks * width
        begin, end, count = plan.part[p], plan.part[p + 1], min(width, K - c)
        for i in range(begin, end):
            o = width * (i - begin)
            copy(block, o, rhs, head * head_stride + at(plan.node, i) * row_stride + c, count)
            for k in range(count, width):
                put(block, o + k, x.dtype.type(0))
        substitute(block, width, width, begin, end, plan, ahead, back, inverse, head)
        for i in range(begin, end):
            copy(x, (head * nodes + at(plan.node, i)) * K + c, block, width * (i - begin), count)


@kernel
def invert(first, last, plan, lower, upper, inverse, x):
    """Rows of (I − A)⁻¹ within each part, ``x [H, T, S]`` with S nodes in the largest part; tasks are heads × parts.

    Row i of L⁻¹ is zero but for its descendants: only there, and a window further on both sides, is it ever written or
    read. Rows of the inverse are sums of it and of others. Those of a small part are made in the cache, and then
    written without being read into it first; others are written where they belong at once.
    """
    _, nodes, S = x.shape
    small = S * S * x.itemsize <= _CACHED
    made = np.empty((1, S if small else 0, S), x.dtype)
    parts, width = plan.part.size - 1, -(-S // WIDTH) * WIDTH
    block = room(plan.largest * width, x.dtype)
    for task in range(first, last):
        head, begin, end = task // parts, plan.part[task % parts], plan.part[task % parts + 1]
        fo, io = head * lower.shape[1], head * nodes
        for i in range(begin, end):
            start_row(block, width, begin, i, plan, lower, fo)
        out, origin = (made, -begin) if small else (x, io)
        for i in range(end - 1, begin - 1, -1):
            sum_rows(out, S, origin, i, at(inverse, io + i), block, width * (i - begin), plan, upper, fo)
        if small:
            copy_past(x, (io + begin) * S, made, (end - begin) * S)


@inlined
def start_row(block, width, begin, i, plan, lower, fo):
    """Row i of L⁻¹ from its first to its last descendant: a unit, and rows before it, each within its own range."""
    here = width * (i - begin)
    for c in range(max(0, at(plan.low, i) - WINDOW), min(width, at(plan.high, i) + WINDOW), WIDTH):
        store(block, here + c, splat(block.dtype.type(0)))
    put(block, here + at(plan.node, i) - begin, block.dtype.type(1))
    for q in range(at(plan.lower_begin, i), at(plan.lower_begin, i + 1)):
        j, w = at(plan.lower_column, q), splat(at(lower, fo + q))
        there = width * (j - begin)
        for c in range(at(plan.low, j), at(plan.high, j), WIDTH):
            store(block, here + c, fma(w, load(block, there + c), load(block, here + c)))


@inlined
def sum_rows(x, S, origin, i, scale, block, there, plan, upper, fo):
    """``x[i] = scale block[i] + Σ_q U[q] x[column[q]]``, a window or 8 columns at once, some of them twice."""
    o, b, e = (origin + at(plan.node, i)) * S, at(plan.upper_begin, i), at(plan.upper_begin, i + 1)
    low, high, zero = at(plan.low, i), at(plan.high, i), splat(x.dtype.type(0))
    if S >= WINDOW:
        for k in range(0, S, WINDOW):
            c, y = min(k, S - WINDOW), (zero, zero)
            if low < c + WINDOW and c < high:
                y = scale * load(block, there + c), scale * load(block, there + c + WIDTH)
            for q in range(b, e):
                row, w = (origin + at(plan.node, at(plan.upper_column, q))) * S + c, splat(at(upper, fo + q))
                y = fma(w, load(x, row), y[0]), fma(w, load(x, row + WIDTH), y[1])
            store(x, o + c, y[0])
            store(x, o + c + WIDTH, y[1])
    elif S >= 8:
        for k in range(0, S, 8):
            c = min(k, S - 8)
            v = scale * load_8(block, there + c)
            for q in range(b, e):
                row = (origin + at(plan.node, at(plan.upper_column, q))) * S
                v = fma(at(upper, fo + q), load_8(x, row + c), v)
            store(x, o + c, v)
    else:
        for c in range(S):
            y = scale * at(block, there + c)
            for q in range(b, e):
                y += at(upper, fo + q) * at(x, (origin + at(plan.node, at(plan.upper_column, q))) * S + c)
            put(x, o + c, y)


@inlined
def copy_past(out, o, x, count):
    """Copy ``count`` numbers from the begin of ``x`` past the caches."""
    first = min(o + count, aligned(out, o))
    last = first + (o + count - first) // WIDTH * WIDTH
    for k in range(o, first):
        put(out, k, at(x, k - o))
    for k in range(first, last, WIDTH):
        store_past(out, k, load(x, k - o))
    for k in range(last, o + count):
        put(out, k, at(x, k - o))


@inlined
def copy(out, o, x, i, count):
    """Copy ``count`` numbers, some of them twice."""
    if count >= WIDTH:
        for k in range(0, count - WIDTH + 1, WIDTH):
            store(out, o + k, load(x, i + k))
        store(out, o + count - WIDTH, load(x, i + count - WIDTH))
    elif count >= 8:
        store(out, o, load_8(x, i))
        store(out, o + count - 8, load_8(x, i + count - 8))
    else:
        for k in range(count):
            put(out, o + k, at(x, i + k))


@kernel
def substitute(x, stride, width, begin, end, plan, ahead, back, inverse, head):
    """Solve in place for ``width`` columns, a multiple of 16: rows ``begin`` to ``end`` of ``x``, ``stride`` apart."""
    fo, io = head * ahead.shape[1], head * inverse.shape[1]
    one = inverse.dtype.type(1)
    for i in range(begin, end):
        b, e = at(plan.lower_begin, i), at(plan.lower_begin, i + 1)
        if e > b:
            add_rows(x, stride, begin, i, 0, width, one, b, e, plan.lower_column, ahead, fo)
    for i in range(end - 1, begin - 1, -1):
        b, e = at(plan.upper_begin, i), at(plan.upper_begin, i + 1)
        add_rows(x, stride, begin, i, 0, width, at(inverse, io + i), b, e, plan.upper_column, back, fo)


@inlined
def add_rows(x, stride, begin, i, low, high, scale, b, e, column, value, fo):
    """``x[i] ← scale x[i] + Σ_{b≤q<e} value[q] x[column[q]]`` for columns ``low`` to ``high``, 64 at once if it can."""
    c, here, s = low, (i - begin) * stride, splat_8(scale)
    while c + 64 <= high:
        y, z = times(s, four(x, here + c)), times(s, four(x, here + c + 32))
        for q in range(b, e):
            w, o = splat_8(at(value, fo + q)), (at(column, q) - begin) * stride + c
            y, z = plus(y, w, four(x, o)), plus(z, w, four(x, o + 32))
        write(x, here + c, y)
        write(x, here + c + 32, z)
        c += 64
    if c + 32 <= high:
        y = times(s, four(x, here + c))
        for q in range(b, e):
            y = plus(y, splat_8(at(value, fo + q)), four(x, (at(column, q) - begin) * stride + c))
        write(x, here + c, y)
        c += 32
    while c < high:
        v = s * load_8(x, here + c)
        for q in range(b, e):
            v = v + splat_8(at(value, fo + q)) * load_8(x, (at(column, q) - begin) * stride + c)
        store(x, here + c, v)
        c += 8


@inlined
def four(x, o):
    """Four vectors, 32 neighbours."""
    return load_8(x, o), load_8(x, o + 8), load_8(x, o + 16), load_8(x, o + 24)


@inlined
def write(x, o, y):
    """Store four vectors."""
    store(x, o, y[0])
    store(x, o + 8, y[1])
    store(x, o + 16, y[2])
    store(x, o + 24, y[3])


@inlined
def times(w, x):
    """``w x`` of a vector and four."""
    return w * x[0], w * x[1], w * x[2], w * x[3]


@inlined
def plus(x, w, y):
    """``x + w y``."""
    return x[0] + w * y[0], x[1] + w * y[1], x[2] + w * y[2], x[3] + w * y[3]
