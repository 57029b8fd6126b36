"""Mixing by masks on general graphs: ``y = (L ⊙ S) V`` with ``S = C Bᵀ`` and ``L = (I − A)⁻¹``, and its adjoint.

A task is one group of heads, one part of a union, and some blocks of columns of its masks. What a block needs, S and
the columns of L of one head after the other, stays in the cache; nothing of size T² is stored.

Arrays, with all leading dimensions in H heads and G groups: ``C, B [G, T, N]``, ``V, Y [H, T, P]``; factors as in `lu`.
Inside, rows and columns are ranks of an `LUPlan`, rows are padded to eight and channels to sixteen, the size of a tile
of `products`.
"""

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.gemm import COLUMNS, ROWS, multiply, spaced
from chimera_ssm.cpu.simd import WIDTH, aligned_empty, fma, horizontal_sum, load, splat, store, vload, vstore
from chimera_ssm.ops.sparse_lu.kernels import add_rows, copy, substitute


@inlined
def padded(n, to):
    """The next multiple."""
    return -(-n // to) * to


@inlined
def zeros(size, dtype):
    """Zeros in aligned memory."""
    x = aligned_empty(size, dtype)
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
            multiply(0, (S, 0, stride), size, columns, (c, 0, N), 1, (bt, 0, stride), N)
            for head in range(heads * group // groups, heads * (group + 1) // groups):
                inverse_columns(X, stride, low, columns, begin, end, plan, lower, upper, inverse, head)
                for i in range(end - begin):
                    for o in range(i * stride, i * stride + columns, WIDTH):
                        vstore(X, o, vload(X, o) * vload(S, o))
                pack(v, vstride, V, head * nodes, P, low, high, plan.node)
                multiply(0, (y, 0, vstride), size, channels, (X, 0, stride), 1, (v, 0, vstride), high - low)
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
            columns, across = padded(high - low, 32), padded(high - low, ROWS)
            pack(b, nstride, B, group * nodes, N, low, high, plan.node)
            turn(bt, stride, columns, B, group * nodes, N, low, high, plan.node)
            multiply(0, (S, 0, stride), size, columns, (c, 0, nstride), 1, (bt, 0, stride), N)
            dS[:] = 0
            for head in range(heads * group // groups, heads * (group + 1) // groups):
                pack(g, vstride, grad, head * nodes, P, begin, end, plan.node)
                turn(vt, stride, columns, V, head * nodes, P, low, high, plan.node)
                multiply(0, (M, 0, stride), size, columns, (g, 0, vstride), 1, (vt, 0, stride), P)
                inverse_columns(L, stride, low, columns, begin, end, plan, lower, upper, inverse, head)
                for i in range(end - begin):
                    for o in range(i * stride, i * stride + columns, WIDTH):
                        x, m, s = vload(L, o), vload(M, o), vload(S, o)
                        vstore(dS, o, vload(dS, o) + x * m)
                        vstore(M, o, s * m)
                        vstore(LS, o, x * s)
                multiply(0, (dp, 0, vstride), across, channels, (LS, 0, 1), stride, (g, 0, vstride), end - begin)
                add_packed(dV, head * nodes, P, dp, vstride, low, high, plan.node)
                substitute(M, stride, columns, begin, end, plan, upper_t, lower_t, inverse, head)
                edge_products(dweight, (slot * heads + head) * edges, M, L, stride, columns, begin, end, plan)
            multiply(0, (dn, 0, nstride), size, states, (dS, 0, stride), 1, (b, 0, nstride), high - low)
            add_packed(dC, (slot * groups + group) * nodes, N, dn, nstride, begin, end, plan.node)
            multiply(
                False,
                (dn, 0, nstride),
                padded(high - low, ROWS),
                states,
                (dS, 0, 1),
                stride,
                (c, 0, nstride),
                end - begin,
            )
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
            vstore(x, o, zero)
        left, right = max(0, load(plan.descendant, i) - low) // 32 * 32, min(columns, (i - low) // 32 * 32 + 32)
        if right > left:
            b, e = load(plan.lower_begin, i), load(plan.lower_begin, i + 1)
            add_rows(x, stride, begin, i, left, right, one, b, e, plan.lower_column, lower, fo)
            if low <= i < low + columns:
                store(x, (i - begin) * stride + i - low, one)
    for i in range(end - 1, begin - 1, -1):
        b, e = load(plan.upper_begin, i), load(plan.upper_begin, i + 1)
        add_rows(x, stride, begin, i, 0, columns, load(inverse, io + i), b, e, plan.upper_column, upper, fo)


@kernel
def edge_products(out, o, x, y, stride, columns, begin, end, plan):
    """Add ``x[target] · y[source]`` to each edge's place in ``out``."""
    for i in range(begin, end):
        a = (i - begin) * stride
        for e in range(load(plan.edge_begin, i), load(plan.edge_begin, i + 1)):
            b = (load(plan.edge_column, e) - begin) * stride
            s0 = s1 = splat(x.dtype.type(0))
            for c in range(0, columns, 2 * WIDTH):
                s0 = fma(vload(x, a + c), vload(y, b + c), s0)
                s1 = fma(vload(x, a + c + WIDTH), vload(y, b + c + WIDTH), s1)
            place = o + load(plan.edge, e)
            store(out, place, load(out, place) + horizontal_sum(s0 + s1))


@inlined
def pack(out, stride, X, origin, count, low, high, node):
    """Rows of the ranks ``low`` to ``high``, ``stride`` apart."""
    for i in range(low, high):
        copy(out, (i - low) * stride, X, (origin + load(node, i)) * count, count)


@inlined
def turn(out, stride, columns, X, origin, count, low, high, node):
    """The same as columns, with zeros up to ``columns`` of them."""
    for i in range(high - low):
        o = (origin + load(node, low + i)) * count
        for k in range(count):
            store(out, k * stride + i, load(X, o + k))
    for k in range(count):
        for i in range(high - low, columns):
            store(out, k * stride + i, out.dtype.type(0))


@inlined
def add_packed(X, origin, count, x, stride, low, high, node):
    """Add packed rows to where they belong."""
    whole = count // WIDTH * WIDTH
    for i in range(low, high):
        o, s = (origin + load(node, i)) * count, (i - low) * stride
        for k in range(0, whole, WIDTH):
            vstore(X, o + k, vload(X, o + k) + vload(x, s + k))
        for k in range(whole, count):
            store(X, o + k, load(X, o + k) + load(x, s + k))
