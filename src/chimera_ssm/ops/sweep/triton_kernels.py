"""Triton kernels of grids with two axes: masks row by row of the grid, never stored as a whole.

A program has a block of grid rows of nodes i and goes over the grid rows c of nodes j, from its own toward the corner
of a DAG. With the entries of L of a node i and the W nodes of row c as a vector,

    L_ic = (L_ic' ⊙ a_c + 1[i in c]) M_c          y_i = Σ_d Σ_c (L_ic ⊙ C_i B_cᵀ ⊙ β_c) V_c

where c' is the row visited before c, a_c are the weights of the edges between both rows, and M_c is the mask of row c
alone: products of the weights between two of its nodes. These are products only, so that weights may be zero or
negative. Lᵀ is the L of the DAG from the opposite corner, with M_cᵀ.

Tensors: ``w [D, heads, E]``, ``beta [D, heads, T]``, ``V, g [heads, T, P]``, ``C, B [D, groups, T, N]``, ``masks
[D, heads, height, WP, WP]``. A block has ``BI`` nodes in rows of WP ≥ W. N and P are processed in ``NB`` and ``PB``
blocks of ``BN`` and ``BP``. Bit d of ``down`` is set if the edges of DAG d lead to higher rows, bit d of ``right`` if
they lead to higher columns.
"""

from __future__ import annotations

import triton
import triton.language as tl

from chimera_ssm.gpu.matmul import dot


@triton.jit
def row_masks(w, masks, right, height, width, E, WP: tl.constexpr):  # type: ignore[no-untyped-def]
    """M_c of each grid row: ``M_kj`` is the product of the weights on the way from j to k, zero if there is none.

    Programs: row, head, DAG.
    """
    row, d = tl.program_id(0), tl.program_id(2)
    number = (d * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    k = tl.arange(0, WP)
    links = w + number * E + (height - 1) * width + row * (width - 1)
    a = tl.load(links + k - 1, mask=(k > 0) & (k < width), other=0.0).to(tl.float32)
    product = tl.cumprod(tl.where(k[None, :] > k[:, None], a[None, :], 1.0), axis=1)  # at [lower, higher]
    product = tl.where((k[None, :] >= k[:, None]) & (k < width)[None, :], product, 0.0)
    to_higher = (right >> d) & 1 == 1
    lower, higher = tl.where(to_higher, 1, WP), tl.where(to_higher, WP, 1)
    at = masks + (number * height + row) * WP * WP
    tl.store(at + k[:, None] * lower + k[None, :] * higher, product)


@triton.jit
def block_nodes(first, height, width, BI: tl.constexpr, WP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The nodes of the block that starts at place ``first``, and whether each is in the grid."""
    place = first + tl.arange(0, BI)
    row, column = place // WP, place % WP
    return row * width + column, (row < height) & (column < width)


@triton.jit
def visits(first, height, down, BI: tl.constexpr, WP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first row that a block visits, the step from row to row, and the number of rows."""
    top, bottom, down = first // WP, tl.minimum((first + BI - 1) // WP, height - 1), down == 1
    return tl.where(down, bottom, top), tl.where(down, -1, 1), tl.where(down, bottom + 1, height - top)


@triton.jit
def load_rows(x, node, inside, width, k):  # type: ignore[no-untyped-def]
    """Columns k of the rows of nodes, zero outside of the grid."""
    return tl.load(x + node[:, None] * width + k[None, :], mask=inside[:, None] & (k < width)[None, :], other=0.0)


@triton.jit
def _scores(x, y, i, inside_i, j, inside_j, size, BI: tl.constexpr, WP: tl.constexpr, BLOCKS: tl.constexpr,
            K: tl.constexpr, LOW: tl.constexpr, PREC: tl.constexpr):  # type: ignore[no-untyped-def]  # fmt: skip
    """``x_i · y_j``, ``[BI, WP]``."""
    scores = tl.zeros([BI, WP], tl.float32)
    for block in range(BLOCKS):
        k = block * K + tl.arange(0, K)
        scores += dot(load_rows(x, i, inside_i, size, k), tl.trans(load_rows(y, j, inside_j, size, k)), LOW, PREC)
    return scores


@triton.jit
def load_tile(x, size, i, inside_i, j, inside_j):  # type: ignore[no-untyped-def]
    """``x[i, j]`` of a matrix with ``size`` columns, zero outside of the grid."""
    return tl.load(x + i[:, None] * size + j[None, :], mask=inside_i[:, None] & inside_j[None, :], other=0.0).to(
        tl.float32
    )


@triton.jit
def _between(w, row, other, width, wanted, WP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weights of the edges between two neighbouring rows, ``[WP]``; zero if they are not wanted."""
    k = tl.arange(0, WP)
    return tl.load(w + tl.minimum(row, other) * width + k, mask=(k < width) & wanted, other=0.0).to(tl.float32)


@triton.jit
def _row_mask(masks, row, WP: tl.constexpr, TRANSPOSED: tl.constexpr):  # type: ignore[no-untyped-def]
    """M_c, or M_cᵀ."""
    k = tl.arange(0, WP)
    M = tl.load(masks + row * WP * WP + k[:, None] * WP + k[None, :])
    return tl.trans(M) if TRANSPOSED else M


@triton.jit
def advance(L, w, masks, first, row, step, start, width, BI: tl.constexpr, WP: tl.constexpr, PREC: tl.constexpr,
             TRANSPOSED: tl.constexpr):  # type: ignore[no-untyped-def]  # fmt: skip
    """``(L ⊙ a + 1[i in row]) M``, where L is that of the row before."""
    i, j = tl.arange(0, BI), tl.arange(0, WP)
    L *= _between(w, row, row - step, width, row != start, WP)[None, :]
    L += tl.where(first + i[:, None] == row * WP + j[None, :], 1.0, 0.0)
    return dot(L, _row_mask(masks, row, WP, TRANSPOSED), tl.float32, PREC)


@triton.jit
def _apply(
    out, w, masks, beta, left, right, values, first, down, height, width, K, J, column,
    BI: tl.constexpr, WP: tl.constexpr, BLOCKS: tl.constexpr, BK: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """``out_i + Σ_j L_ij (left_i · right_j) β_j values_j``; if ``TRANSPOSED`` with Lᵀ, and without β.

    ``left, right [T, K]`` are read in blocks of ``BK``, of ``values [T, J]`` the columns ``column``.
    """
    i, inside_i = block_nodes(first, height, width, BI, WP)
    start, step, count = visits(first, height, (1 - down) if TRANSPOSED else down, BI, WP)
    L, k = tl.zeros([BI, WP], tl.float32), tl.arange(0, WP)
    for number in range(0, count):
        row = start + number * step
        L = advance(L, w, masks, first, row, step, start, width, BI, WP, PREC, TRANSPOSED)
        j, inside = row * width + k, k < width
        M = L * _scores(left, right, i, inside_i, j, inside, K, BI, WP, BLOCKS, BK, LOW, PREC)
        if not TRANSPOSED:
            M *= tl.load(beta + j, mask=inside, other=0.0).to(tl.float32)[None, :]
        out += dot(M, load_rows(values, j, inside, J, column), LOW, PREC)
    return out


@triton.jit
def grid_outputs(
    w, beta, C, B, V, masks, y, down, height, width, T, E, N, P, D, heads, share,
    BI: tl.constexpr, WP: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """``y_i = Σ_d Σ_j L_ij (C_i · B_j) β_j v_j``. Programs: block of rows, head, block of P."""
    first, head = tl.program_id(0) * BI, tl.program_id(1).to(tl.int64)
    groups, group = heads // share, head // share
    p = tl.program_id(2) * BP + tl.arange(0, BP)
    i, inside = block_nodes(first, height, width, BI, WP)
    out = tl.zeros([BI, BP], tl.float32)
    for d in range(0, D):
        at, of_group = d * heads + head, (d * groups + group) * T * N
        out = _apply(
            out, w + at * E, masks + at * height * WP * WP, beta + at * T, C + of_group, B + of_group, V + head * T * P,
            first, (down >> d) & 1, height, width, N, P, p, BI, WP, NB, BN, LOW, PREC, False,
        )  # fmt: skip
    tl.store(y + head * T * P + i[:, None] * P + p[None, :], out, mask=inside[:, None] & (p < P)[None, :])


@triton.jit
def grid_value_gradients(
    w, beta, C, B, V, g, masks, dbeta, dV, down, height, width, T, E, N, P, D, heads, share,
    BI: tl.constexpr, WP: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Gradients of V and β.

        dv_j = Σ_d β_j u_j,      dβ_j = u_j · v_j,      u_j = Σ_i L_ij (C_i · B_j) g_i

    Programs: block of rows, head, block of P; the sum over P is stored by blocks, ``dbeta [PB, D, heads, T]``.
    """
    first, head = tl.program_id(0) * BI, tl.program_id(1).to(tl.int64)
    groups, group = heads // share, head // share
    p = tl.program_id(2) * BP + tl.arange(0, BP)
    j, inside = block_nodes(first, height, width, BI, WP)
    out = tl.zeros([BI, BP], tl.float32)
    for d in range(0, D):
        at, of_group = d * heads + head, (d * groups + group) * T * N
        u = _apply(
            tl.zeros([BI, BP], tl.float32), w + at * E, masks + at * height * WP * WP, beta, B + of_group, C + of_group,
            g + head * T * P, first, (down >> d) & 1, height, width, N, P, p, BI, WP, NB, BN, LOW, PREC, True,
        )  # fmt: skip
        v = load_rows(V + head * T * P, j, inside, P, p).to(tl.float32)
        of_block = (tl.program_id(2) * D * heads + at) * T
        tl.store(dbeta + of_block + j, tl.sum(u * v, axis=1), mask=inside)
        out += tl.load(beta + at * T + j, mask=inside, other=0.0).to(tl.float32)[:, None] * u
    tl.store(dV + head * T * P + j[:, None] * P + p[None, :], out, mask=inside[:, None] & (p < P)[None, :])


@triton.jit
def grid_key_gradients(
    w, beta, keys, left, right, masks, out, down, height, width, T, E, N, P, heads, share, each,
    BI: tl.constexpr, WP: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """The gradient of C or, if ``TRANSPOSED``, of B, summed over ``each`` heads of a group.

        dC_i = Σ_j L_ij (g_i · v_j) β_j B_j,      dB_j = β_j Σ_i L_ij (v_j · g_i) C_i

    ``keys`` is B, or C; ``left`` and ``right`` are g and V, or V and g. Programs: block of rows, share of a group's
    heads, DAG and block of N.
    """
    first, slot, d = tl.program_id(0) * BI, tl.program_id(1), tl.program_id(2) // NB
    n = tl.program_id(2) % NB * BN + tl.arange(0, BN)
    group, groups = (slot * each // share).to(tl.int64), heads // share
    i, inside = block_nodes(first, height, width, BI, WP)
    total = tl.zeros([BI, BN], tl.float32)
    for k in range(0, each):
        head = (slot * each + k).to(tl.int64)
        at = d * heads + head
        through = _apply(
            tl.zeros([BI, BN], tl.float32), w + at * E, masks + at * height * WP * WP, beta + at * T,
            left + head * T * P, right + head * T * P, keys + (d * groups + group) * T * N,
            first, (down >> d) & 1, height, width, P, N, n, BI, WP, PB, BP, LOW, PREC, TRANSPOSED,
        )  # fmt: skip
        if TRANSPOSED:
            through *= tl.load(beta + at * T + i, mask=inside, other=0.0).to(tl.float32)[:, None]
        total += through
    # One sum for each slot of the group.
    number = (slot % (share // each) * (tl.num_programs(2) // NB) + d) * groups + group
    tl.store(out + number * T * N + i[:, None] * N + n[None, :], total, mask=inside[:, None] & (n < N)[None, :])


@triton.jit
def grid_weight_gradients(
    w, beta, C, B, V, g, masks, scratch, dw, down, right, height, width, T, E, N, P, heads, share, tasks, slots, blocks,
    BI: tl.constexpr, WP: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr, STORED: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Gradients of the weights, of edges from s to t.

        da_ts = Σ_i L_it U_is,      U_is = Σ_j (C_i · B_j) β_j (g_i · v_j) L_sj

    The rows of L of a block are written to the program's own ``scratch [height, BI, WP]``. Then U goes over the same
    rows in reverse, ``U_ic = (G_ic + U_ic' ⊙ a) M_cᵀ``. A task is a DAG, a head, and every ``slots``-th block, whose
    gradients are added up in ``dw [slots, D, heads, E]``. Programs go through the tasks. If ``STORED``, C is
    ``C Bᵀ [D, groups, T, T]`` and V is ``g Vᵀ [heads, T, T]``.
    """
    columns_n, columns_p = (T, T) if STORED else (N, P)
    scratch += tl.program_id(0).to(tl.int64) * height * BI * WP
    for task in range(tl.program_id(0), tasks, tl.num_programs(0)):
        slot, at = task % slots, (task // slots).to(tl.int64)
        d, head = at // heads, at % heads
        of_group = (d * (heads // share) + head // share) * T * columns_n
        is_down, is_right = (down >> d) & 1, (right >> d) & 1
        weights, row_mask = w + at * E, masks + at * height * WP * WP
        gradients = dw + (slot * (tasks // slots) + at) * E
        for block in range(slot, blocks, slots):
            first = block * BI
            _store_rows(weights, row_mask, scratch, first, is_down, height, width, BI, WP, PREC)
            tl.debug_barrier()
            _add_edges(
                weights, row_mask, scratch, beta + at * T, C + of_group, B + of_group,
                V + head * T * columns_p, g + head * T * P, gradients, first, is_down, is_right, height, width, N, P,
                T, BI, WP, NB, BN, PB, BP, LOW, PREC, STORED,
            )  # fmt: skip
            tl.debug_barrier()


@triton.jit
def _store_rows(w, masks, scratch, first, down, height, width, BI: tl.constexpr, WP: tl.constexpr,
                PREC: tl.constexpr):  # type: ignore[no-untyped-def]  # fmt: skip
    """Write the rows of L of a block to memory."""
    i, j = tl.arange(0, BI), tl.arange(0, WP)
    start, step, count = visits(first, height, down, BI, WP)
    L = tl.zeros([BI, WP], tl.float32)
    for number in range(0, count):
        row = start + number * step
        L = advance(L, w, masks, first, row, step, start, width, BI, WP, PREC, False)
        tl.store(scratch + row * BI * WP + i[:, None] * WP + j[None, :], L)


@triton.jit
def _add_edges(
    w, masks, scratch, beta, C, B, V, g, dw, first, down, right, height, width, N, P, T,
    BI: tl.constexpr, WP: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr, STORED: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add the gradients of a block to those of the edges between rows, and of the edges within rows."""
    m, k = tl.arange(0, BI), tl.arange(0, WP)
    i, inside_i = block_nodes(first, height, width, BI, WP)
    start, step, count = visits(first, height, down, BI, WP)
    toward = tl.where(right == 1, 1, -1)  # from the source of an edge within a row to its target
    has_edge = (k < width) & (k + toward >= 0) & (k + toward < width)
    U = tl.zeros([BI, WP], tl.float32)
    for number in range(0, count):
        row = start + (count - 1 - number) * step
        rows = scratch + row * BI * WP + m[:, None] * WP
        if number > 0:
            at = tl.minimum(row, row + step) * width + k
            added = tl.sum(U * tl.load(rows + k[None, :]), axis=0)
            tl.store(dw + at, tl.load(dw + at, mask=k < width, other=0.0) + added, mask=k < width)
            U *= _between(w, row, row + step, width, True, WP)[None, :]
        j, inside = row * width + k, k < width
        if STORED:
            G = load_tile(C, T, i, inside_i, j, inside) * load_tile(V, T, i, inside_i, j, inside)
        else:
            G = _scores(C, B, i, inside_i, j, inside, N, BI, WP, NB, BN, LOW, PREC)
            G *= _scores(g, V, i, inside_i, j, inside, P, BI, WP, PB, BP, LOW, PREC)
        U += G * tl.load(beta + j, mask=inside, other=0.0).to(tl.float32)[None, :]
        U = dot(U, _row_mask(masks, row, WP, True), tl.float32, PREC)
        at_target = tl.load(rows + (k + toward)[None, :], mask=has_edge[None, :], other=0.0)
        at = (height - 1) * width + row * (width - 1) + tl.minimum(k, k + toward)
        added = tl.sum(U * at_target, axis=0)
        tl.store(dw + at, tl.load(dw + at, mask=has_edge, other=0.0) + added, mask=has_edge)
