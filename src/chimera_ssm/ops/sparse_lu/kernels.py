"""Sparse LU without pivoting: factors ``I − A = L D U``, and solves with them.

Arrays, with all leading dimensions in H: weights ``[H, E]``; −L and −U off their unit diagonals, row by row,
``[H, F]``; D⁻¹ ``[H, T]``. Rows and columns are ranks of an `LUPlan`.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import (
    WIDTH,
    aligned,
    aligned_empty,
    fma,
    largest,
    load,
    splat,
    splat_8,
    store,
    vload,
    vload_8,
    vstore,
    vstore_nontemporal,
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
                store(edge_weight, LANES * (e - edge_origin) + l, load(weight, (head + l) * edges + load(plan.edge, e)))
        for i in range(begin, end):
            here = LANES * (i - begin)
            for e in range(load(plan.edge_begin, i), load(plan.edge_begin, i + 1)):
                o = LANES * (load(plan.edge_column, e) - begin)
                vstore(row, o, zero - vload_8(edge_weight, LANES * (e - edge_origin)))
            vstore(row, here, vload_8(row, here) + one)
            for q in range(load(plan.lower_begin, i), load(plan.lower_begin, i + 1)):
                k = load(plan.lower_column, q)
                left = vload_8(row, LANES * (k - begin))
                vstore(row, LANES * (k - begin), zero)
                grown = largest(left * vload_8(peak, LANES * (k - begin)), grown)
                for r in range(load(plan.upper_begin, k), load(plan.upper_begin, k + 1)):
                    o = LANES * (load(plan.upper_column, r) - begin)
                    vstore(row, o, vload_8(row, o) + left * vload_8(U, LANES * (r - origin)))
                vstore(lane, 0, zero - left * vload_8(pivot, LANES * (k - begin)))
                scatter_lanes(lane, lower, head * entries + q, entries, lanes)
            diagonal, top = vload_8(row, here), one
            vstore(lane, 0, one / diagonal)
            vstore(pivot, here, vload_8(lane, 0))
            vstore(row, here, zero)
            scatter_lanes(lane, inverse, head * nodes + i, nodes, lanes)
            for r in range(load(plan.upper_begin, i), load(plan.upper_begin, i + 1)):
                o = LANES * (load(plan.upper_column, r) - begin)
                vstore(lane, 0, zero - vload_8(row, o) * vload_8(pivot, here))
                vstore(row, o, zero)
                vstore(U, LANES * (r - origin), vload_8(lane, 0))
                top = largest(vload_8(lane, 0), top)
                scatter_lanes(lane, upper, head * entries + r, entries, lanes)
            vstore(peak, here, top)
            grown = largest(diagonal * top, grown)
        vstore(lane, 0, grown)
        scatter_lanes(lane, growth, head * growth.shape[1] + p, growth.shape[1], lanes)


@inlined
def scatter_lanes(lane, out, o, stride, lanes):
    """Hand out the lanes of a vector to heads, ``stride`` apart."""
    for l in range(lanes):
        store(out, o + l * stride, load(lane, l))


@kernel
def solve(first, last, width, plan, ahead, back, inverse, rhs, head_stride, row_stride, x):
    """``x = (I − A)⁻¹ rhs``, ``[H, T, K]``, for tasks: a head, a part and ``width`` columns, a multiple of 16, each.

    ``ahead, back`` are the factors L and U, or their transposes the other way round. ``rhs`` is flat, its elements
    at ``head_stride``, ``row_stride`` and 1.
    """
    _, nodes, K = x.shape
    parts, blocks = plan.part.size - 1, -(-K // width)
    block = aligned_empty(plan.largest * width, x.dtype)
    for task in range(first, last):
        head, p, c = task // (parts * blocks), task // blocks % parts, task % blocks * width
        begin, end, count = plan.part[p], plan.part[p + 1], min(width, K - c)
        for i in range(begin, end):
            o = width * (i - begin)
            copy(block, o, rhs, head * head_stride + load(plan.node, i) * row_stride + c, count)
            for k in range(count, width):
                store(block, o + k, x.dtype.type(0))
        substitute(block, width, width, begin, end, plan, ahead, back, inverse, head)
        for i in range(begin, end):
            copy(x, (head * nodes + load(plan.node, i)) * K + c, block, width * (i - begin), count)


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
    block = aligned_empty(plan.largest * width, x.dtype)
    for task in range(first, last):
        head, begin, end = task // parts, plan.part[task % parts], plan.part[task % parts + 1]
        fo, io = head * lower.shape[1], head * nodes
        for i in range(begin, end):
            start_row(block, width, begin, i, plan, lower, fo)
        out, origin = (made, -begin) if small else (x, io)
        for i in range(end - 1, begin - 1, -1):
            sum_rows(out, S, origin, i, load(inverse, io + i), block, width * (i - begin), plan, upper, fo)
        if small:
            copy_past(x, (io + begin) * S, made, (end - begin) * S)


@inlined
def start_row(block, width, begin, i, plan, lower, fo):
    """Row i of L⁻¹ from its first to its last descendant: a unit, and rows before it, each within its own range."""
    here = width * (i - begin)
    for c in range(max(0, load(plan.low, i) - WINDOW), min(width, load(plan.high, i) + WINDOW), WIDTH):
        vstore(block, here + c, splat(block.dtype.type(0)))
    store(block, here + load(plan.node, i) - begin, block.dtype.type(1))
    for q in range(load(plan.lower_begin, i), load(plan.lower_begin, i + 1)):
        j, w = load(plan.lower_column, q), splat(load(lower, fo + q))
        there = width * (j - begin)
        for c in range(load(plan.low, j), load(plan.high, j), WIDTH):
            vstore(block, here + c, fma(w, vload(block, there + c), vload(block, here + c)))


@inlined
def sum_rows(x, S, origin, i, scale, block, there, plan, upper, fo):
    """``x[i] = scale block[i] + Σ_q U[q] x[column[q]]``, a window or 8 columns at once, some of them twice."""
    o, b, e = (origin + load(plan.node, i)) * S, load(plan.upper_begin, i), load(plan.upper_begin, i + 1)
    low, high, zero = load(plan.low, i), load(plan.high, i), splat(x.dtype.type(0))
    if S >= WINDOW:
        for k in range(0, S, WINDOW):
            c, y = min(k, S - WINDOW), (zero, zero)
            if low < c + WINDOW and c < high:
                y = scale * vload(block, there + c), scale * vload(block, there + c + WIDTH)
            for q in range(b, e):
                row, w = (origin + load(plan.node, load(plan.upper_column, q))) * S + c, splat(load(upper, fo + q))
                y = fma(w, vload(x, row), y[0]), fma(w, vload(x, row + WIDTH), y[1])
            vstore(x, o + c, y[0])
            vstore(x, o + c + WIDTH, y[1])
    elif S >= 8:
        for k in range(0, S, 8):
            c = min(k, S - 8)
            v = scale * vload_8(block, there + c)
            for q in range(b, e):
                row = (origin + load(plan.node, load(plan.upper_column, q))) * S
                v = fma(load(upper, fo + q), vload_8(x, row + c), v)
            vstore(x, o + c, v)
    else:
        for c in range(S):
            y = scale * load(block, there + c)
            for q in range(b, e):
                y += load(upper, fo + q) * load(x, (origin + load(plan.node, load(plan.upper_column, q))) * S + c)
            store(x, o + c, y)


@inlined
def copy_past(out, o, x, count):
    """Copy ``count`` numbers from the start of ``x`` past the caches."""
    first = min(o + count, aligned(out, o))
    last = first + (o + count - first) // WIDTH * WIDTH
    for k in range(o, first):
        store(out, k, load(x, k - o))
    for k in range(first, last, WIDTH):
        vstore_nontemporal(out, k, vload(x, k - o))
    for k in range(last, o + count):
        store(out, k, load(x, k - o))


@inlined
def copy(out, o, x, i, count):
    """Copy ``count`` numbers, some of them twice."""
    if count >= WIDTH:
        for k in range(0, count - WIDTH + 1, WIDTH):
            vstore(out, o + k, vload(x, i + k))
        vstore(out, o + count - WIDTH, vload(x, i + count - WIDTH))
    elif count >= 8:
        vstore(out, o, vload_8(x, i))
        vstore(out, o + count - 8, vload_8(x, i + count - 8))
    else:
        for k in range(count):
            store(out, o + k, load(x, i + k))


@kernel
def substitute(x, stride, width, begin, end, plan, ahead, back, inverse, head):
    """Solve in place for ``width`` columns, a multiple of 16: rows ``begin`` to ``end`` of ``x``, ``stride`` apart."""
    fo, io = head * ahead.shape[1], head * inverse.shape[1]
    one = inverse.dtype.type(1)
    for i in range(begin, end):
        b, e = load(plan.lower_begin, i), load(plan.lower_begin, i + 1)
        if e > b:
            add_rows(x, stride, begin, i, 0, width, one, b, e, plan.lower_column, ahead, fo)
    for i in range(end - 1, begin - 1, -1):
        b, e = load(plan.upper_begin, i), load(plan.upper_begin, i + 1)
        add_rows(x, stride, begin, i, 0, width, load(inverse, io + i), b, e, plan.upper_column, back, fo)


@inlined
def add_rows(x, stride, begin, i, low, high, scale, b, e, column, value, fo):
    """``x[i] ← scale x[i] + Σ_{b≤q<e} value[q] x[column[q]]`` for columns ``low`` to ``high``, 64 at once if it can."""
    c, here, s = low, (i - begin) * stride, splat_8(scale)
    while c + 64 <= high:
        y, z = times(s, four(x, here + c)), times(s, four(x, here + c + 32))
        for q in range(b, e):
            w, o = splat_8(load(value, fo + q)), (load(column, q) - begin) * stride + c
            y, z = plus(y, w, four(x, o)), plus(z, w, four(x, o + 32))
        write(x, here + c, y)
        write(x, here + c + 32, z)
        c += 64
    if c + 32 <= high:
        y = times(s, four(x, here + c))
        for q in range(b, e):
            y = plus(y, splat_8(load(value, fo + q)), four(x, (load(column, q) - begin) * stride + c))
        write(x, here + c, y)
        c += 32
    while c < high:
        v = s * vload_8(x, here + c)
        for q in range(b, e):
            v = v + splat_8(load(value, fo + q)) * vload_8(x, (load(column, q) - begin) * stride + c)
        vstore(x, here + c, v)
        c += 8


@inlined
def four(x, o):
    """Four vectors, 32 neighbours."""
    return vload_8(x, o), vload_8(x, o + 8), vload_8(x, o + 16), vload_8(x, o + 24)


@inlined
def write(x, o, y):
    """Store four vectors."""
    vstore(x, o, y[0])
    vstore(x, o + 8, y[1])
    vstore(x, o + 16, y[2])
    vstore(x, o + 24, y[3])


@inlined
def times(w, x):
    """``w x`` of a vector and four."""
    return w * x[0], w * x[1], w * x[2], w * x[3]


@inlined
def plus(x, w, y):
    """``x + w y``."""
    return x[0] + w * y[0], x[1] + w * y[1], x[2] + w * y[2], x[3] + w * y[3]
