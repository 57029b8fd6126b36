"""Mixing by masks on general graphs: ``y = (L ⊙ S) V`` with ``S = C Bᵀ`` and ``L = (I − A)⁻¹``, and its adjoint.

A task is one group of heads, one part of a union, and some blocks of columns of its masks. What a block needs, S and
the columns of L of one head after the other, stays in the cache; nothing of size T² is kept or handed over.

Arrays, with all leading dimensions in H heads and G groups: ``C, B [G, T, N]``, ``V, Y [H, T, P]``; factors as in `lu`.
Inside, rows and columns are ranks of an `LUPlan`, rows are padded to six and channels to sixteen, the size of a tile.
"""

from chimera_ssm.solvers.kernels.jit import inlined, kernel
from chimera_ssm.solvers.kernels.lu import add_rows, copy, substitute
from chimera_ssm.solvers.kernels.simd import WIDTH, at, fma, load, put, room, splat, store, total

ROWS, COLUMNS = 6, WIDTH


@inlined
def spaced(columns):
    """Distance of rows: an odd number of tiles, so that the rows of a tile spread over the cache."""
    return columns + COLUMNS * (1 - columns // COLUMNS % 2)


@inlined
def padded(n, to):
    """The next multiple."""
    return -(-n // to) * to


@inlined
def zeros(size, dtype):
    """Zeros in aligned memory."""
    x = room(size, dtype)
    x[:] = 0
    return x


@kernel
def masks_forward(first, last, slots, width, plan, lower, upper, inverse, C, B, V, Y):
    """``Y [slots, H, T, P]`` += the mix, for tasks ``first`` to ``last`` of G × parts × slots; its sum over slots is y.

    Blocks have ``width`` columns, a multiple of 32.
    """
    (groups, nodes, N), (_, heads, _, P) = C.shape, Y.shape
    parts, largest = plan.part.size - 1, plan.largest
    stride, channels = spaced(width), padded(P, COLUMNS)
    rows, vstride = padded(max(largest, width), ROWS), spaced(channels)
    c, bt = zeros(rows * N, C.dtype), zeros(N * stride, C.dtype)
    S, X = zeros(rows * stride, C.dtype), zeros(rows * stride, C.dtype)
    v, y = zeros(rows * vstride, C.dtype), zeros(rows * vstride, C.dtype)
    for task in range(first, last):
        group, p, slot = task // (parts * slots), task // slots % parts, task % slots
        begin, end = plan.part[p], plan.part[p + 1]
        size, blocks = padded(end - begin, ROWS), -(-(end - begin) // width)
        pack(c, N, C, group * nodes, N, begin, end, plan.node)
        for block in range(blocks * slot // slots, blocks * (slot + 1) // slots):
            low, high = begin + block * width, min(end, begin + (block + 1) * width)
            columns = padded(high - low, 32)
            turn(bt, stride, columns, B, group * nodes, N, low, high, plan.node)
            multiply(S, stride, size, columns, c, N, 1, bt, stride, N)
            for head in range(heads * group // groups, heads * (group + 1) // groups):
                inverse_columns(X, stride, low, columns, begin, end, plan, lower, upper, inverse, head)
                for i in range(end - begin):
                    for o in range(i * stride, i * stride + columns, WIDTH):
                        store(X, o, load(X, o) * load(S, o))
                pack(v, vstride, V, head * nodes, P, low, high, plan.node)
                multiply(y, vstride, size, channels, X, stride, 1, v, vstride, high - low)
                add_packed(Y, (slot * heads + head) * nodes, P, y, vstride, begin, end, plan.node)


@kernel
def masks_backward(first, last, slots, width, plan, factors, inverse, C, B, V, grad, dweight, dC, dB, dV):
    """The adjoint for incoming gradients ``grad [H, T, P]``, tasks as in `masks_forward`.

    With ``M = g Vᵀ``: ``dS = Σ_heads L ⊙ M``, ``dC = dS B``, ``dB = dSᵀ C``, ``dV = (L ⊙ S)ᵀ g``, ``Λ = Lᵀ (S ⊙ M)``,
    and ``∂A_ij = Λ_i · L_j`` on edges. ``factors`` are −L, −U, −Uᵀ, −Lᵀ, row by row. ``dweight [slots, H, E]``,
    ``dC [slots, G, T, N]``, ``dB`` and ``dV`` are added to.
    """
    (groups, nodes, N), (heads, _, P), edges = C.shape, V.shape, dweight.shape[2]
    lower, upper, upper_t, lower_t = factors
    parts, largest = plan.part.size - 1, plan.largest
    stride, channels, states = spaced(width), padded(P, COLUMNS), padded(N, COLUMNS)
    rows, vstride, nstride = padded(max(largest, width), ROWS), spaced(channels), spaced(states)
    c, b, bt = zeros(rows * nstride, C.dtype), zeros(rows * nstride, C.dtype), zeros(N * stride, C.dtype)
    g, vt = zeros(rows * vstride, C.dtype), zeros(P * stride, C.dtype)
    dn, dp = zeros(rows * nstride, C.dtype), zeros(rows * vstride, C.dtype)
    S, dS = zeros(rows * stride, C.dtype), zeros(rows * stride, C.dtype)
    L, M, LS = zeros(rows * stride, C.dtype), zeros(rows * stride, C.dtype), zeros(rows * stride, C.dtype)
    for task in range(first, last):
        group, p, slot = task // (parts * slots), task // slots % parts, task % slots
        begin, end = plan.part[p], plan.part[p + 1]
        size, blocks = padded(end - begin, ROWS), -(-(end - begin) // width)
        pack(c, nstride, C, group * nodes, N, begin, end, plan.node)
        for block in range(blocks * slot // slots, blocks * (slot + 1) // slots):
            low, high = begin + block * width, min(end, begin + (block + 1) * width)
            columns = padded(high - low, 32)
            pack(b, nstride, B, group * nodes, N, low, high, plan.node)
            turn(bt, stride, columns, B, group * nodes, N, low, high, plan.node)
            multiply(S, stride, size, columns, c, nstride, 1, bt, stride, N)
            dS[:] = 0
            for head in range(heads * group // groups, heads * (group + 1) // groups):
                pack(g, vstride, grad, head * nodes, P, begin, end, plan.node)
                turn(vt, stride, columns, V, head * nodes, P, low, high, plan.node)
                multiply(M, stride, size, columns, g, vstride, 1, vt, stride, P)
                inverse_columns(L, stride, low, columns, begin, end, plan, lower, upper, inverse, head)
                for i in range(end - begin):
                    for o in range(i * stride, i * stride + columns, WIDTH):
                        x, m, s = load(L, o), load(M, o), load(S, o)
                        store(dS, o, load(dS, o) + x * m)
                        store(M, o, s * m)
                        store(LS, o, x * s)
                multiply(dp, vstride, padded(high - low, ROWS), channels, LS, 1, stride, g, vstride, end - begin)
                add_packed(dV, head * nodes, P, dp, vstride, low, high, plan.node)
                substitute(M, stride, columns, begin, end, plan, upper_t, lower_t, inverse, head)
                edge_products(dweight, (slot * heads + head) * edges, M, L, stride, columns, begin, end, plan)
            multiply(dn, nstride, size, states, dS, stride, 1, b, nstride, high - low)
            add_packed(dC, (slot * groups + group) * nodes, N, dn, nstride, begin, end, plan.node)
            multiply(dn, nstride, padded(high - low, ROWS), states, dS, 1, stride, c, nstride, end - begin)
            add_packed(dB, group * nodes, N, dn, nstride, low, high, plan.node)


@kernel
def inverse_columns(x, stride, low, columns, begin, end, plan, lower, upper, inverse, head):
    """Columns of (I − A)⁻¹ from rank ``low`` on, a multiple of 32 in number; zeros beyond the last.

    Row i of L⁻¹ begins at its first descendant: only there is anything to do on the way up.
    """
    zero, one = splat(x.dtype.type(0)), x.dtype.type(1)
    fo, io = head * lower.shape[1], head * inverse.shape[1]
    for i in range(begin, end):
        for o in range((i - begin) * stride, (i - begin) * stride + columns, WIDTH):
            store(x, o, zero)
        left, right = max(0, at(plan.descendant, i) - low) // 32 * 32, min(columns, (i - low) // 32 * 32 + 32)
        if right > left:
            b, e = at(plan.lower_begin, i), at(plan.lower_begin, i + 1)
            add_rows(x, stride, begin, i, left, right, one, b, e, plan.lower_column, lower, fo)
            if low <= i < low + columns:
                put(x, (i - begin) * stride + i - low, one)
    for i in range(end - 1, begin - 1, -1):
        b, e = at(plan.upper_begin, i), at(plan.upper_begin, i + 1)
        add_rows(x, stride, begin, i, 0, columns, at(inverse, io + i), b, e, plan.upper_column, upper, fo)


@kernel
def edge_products(out, o, x, y, stride, columns, begin, end, plan):
    """Add ``x[target] · y[source]`` to each edge's place in ``out``."""
    for i in range(begin, end):
        a = (i - begin) * stride
        for e in range(at(plan.edge_begin, i), at(plan.edge_begin, i + 1)):
            b = (at(plan.edge_column, e) - begin) * stride
            s0 = s1 = splat(x.dtype.type(0))
            for c in range(0, columns, 2 * WIDTH):
                s0 = fma(load(x, a + c), load(y, b + c), s0)
                s1 = fma(load(x, a + c + WIDTH), load(y, b + c + WIDTH), s1)
            place = o + at(plan.edge, e)
            put(out, place, at(out, place) + total(s0 + s1))


@kernel
def multiply(out, stride, rows, columns, a, a_row, a_column, b, b_stride, size):
    """``out = a b``, tile by tile: ``a[r, k]`` at ``r·a_row + k·a_column``, so that it may be a transpose."""
    zero = splat(out.dtype.type(0))
    for c in range(0, columns, COLUMNS):
        for r in range(0, rows, ROWS):
            y0 = y1 = y2 = y3 = y4 = y5 = zero
            a0 = r * a_row
            a1, a2, a3, a4, a5 = a0 + a_row, a0 + 2 * a_row, a0 + 3 * a_row, a0 + 4 * a_row, a0 + 5 * a_row
            for k in range(size):
                x, o = load(b, k * b_stride + c), k * a_column
                y0, y1 = fma(at(a, a0 + o), x, y0), fma(at(a, a1 + o), x, y1)
                y2, y3 = fma(at(a, a2 + o), x, y2), fma(at(a, a3 + o), x, y3)
                y4, y5 = fma(at(a, a4 + o), x, y4), fma(at(a, a5 + o), x, y5)
            o = r * stride + c
            store(out, o, y0)
            store(out, o + stride, y1)
            store(out, o + 2 * stride, y2)
            store(out, o + 3 * stride, y3)
            store(out, o + 4 * stride, y4)
            store(out, o + 5 * stride, y5)


@inlined
def pack(out, stride, X, origin, count, low, high, node):
    """Rows of the ranks ``low`` to ``high``, ``stride`` apart."""
    for i in range(low, high):
        copy(out, (i - low) * stride, X, (origin + at(node, i)) * count, count)


@inlined
def turn(out, stride, columns, X, origin, count, low, high, node):
    """The same as columns, with zeros up to ``columns`` of them."""
    for i in range(high - low):
        o = (origin + at(node, low + i)) * count
        for k in range(count):
            put(out, k * stride + i, at(X, o + k))
    for k in range(count):
        for i in range(high - low, columns):
            put(out, k * stride + i, out.dtype.type(0))


@inlined
def add_packed(X, origin, count, x, stride, low, high, node):
    """Add packed rows to where they belong."""
    whole = count // WIDTH * WIDTH
    for i in range(low, high):
        o, s = (origin + at(node, i)) * count, (i - low) * stride
        for k in range(0, whole, WIDTH):
            store(X, o + k, load(X, o + k) + load(x, s + k))
        for k in range(whole, count):
            put(X, o + k, at(X, o + k) + at(x, s + k))
