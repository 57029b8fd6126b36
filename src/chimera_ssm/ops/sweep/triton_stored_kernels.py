"""Triton kernels of small grids whose products C Bᵀ and g Vᵀ are stored: equations in `triton_kernels`.

With ``S_d = C_d B_dᵀ`` and ``X = g Vᵀ``, the masks of two DAGs with the same vertical direction are added before the
product with V or g:

    y_i = Σ_j (Σ_d L_d ⊙ S_d β_d)_ij v_j        dv_j = Σ_i (Σ_d β_d L_d ⊙ S_d)_ij g_i
    dβ_dj = Σ_i (L_d ⊙ S_d ⊙ X)_ij              dS_d = Σ_heads L_d ⊙ X β_d

Tensors besides those of `triton_kernels`: ``S, dS [D, groups, T, T]``, ``X [heads, T, T]``. The first ``downs`` DAGs
have edges that lead down, the others up.
"""

from __future__ import annotations

import triton
import triton.language as tl

from chimera_ssm.gpu.matmul import dot
from chimera_ssm.ops.sweep.triton_kernels import advance, block_nodes, load_rows, load_tile, visits


@triton.jit
def _pair(number, downs, D):  # type: ignore[no-untyped-def]
    """Two DAGs of the same vertical direction, whether there is a second one, and whether they lead down."""
    of_down = (downs + 1) // 2
    down = number < of_down
    d = tl.where(down, 2 * number, downs + 2 * (number - of_down))
    two = d + 1 < tl.where(down, downs, D)
    return d, tl.where(two, d + 1, d), two, tl.where(down, 1, 0)


@triton.jit
def _load(x, at, inside):  # type: ignore[no-untyped-def]
    return tl.load(x + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def stored_outputs(
    w, beta, S, V, masks, y, downs, height, width, T, E, N, P, D, heads, share,
    BI: tl.constexpr, WP: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr, LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """``y``. Programs: block of rows, head, block of P."""
    first, head = tl.program_id(0) * BI, tl.program_id(1).to(tl.int64)
    group, size = head // share, height * WP * WP
    p, k = tl.program_id(2) * BP + tl.arange(0, BP), tl.arange(0, WP)
    i, inside = block_nodes(first, height, width, BI, WP)
    out = tl.zeros([BI, BP], tl.float32)
    for number in range(0, (downs + 1) // 2 + (D - downs + 1) // 2):
        d, e, two, down = _pair(number, downs, D)
        a, b = d * heads + head, e * heads + head
        S_d, S_e = S + (d * (heads // share) + group) * T * T, S + (e * (heads // share) + group) * T * T
        start, step, count = visits(first, height, down, BI, WP)
        L, M = tl.zeros([BI, WP], tl.float32), tl.zeros([BI, WP], tl.float32)
        for visit in range(0, count):
            row = start + visit * step
            L = advance(L, w + a * E, masks + a * size, first, row, step, start, width, BI, WP, PREC, False)
            M = advance(M, w + b * E, masks + b * size, first, row, step, start, width, BI, WP, PREC, False)
            j, in_row = row * width + k, k < width
            mixed = L * load_tile(S_d, T, i, inside, j, in_row) * _load(beta + a * T, j, in_row)[None, :]
            other = M * load_tile(S_e, T, i, inside, j, in_row) * _load(beta + b * T, j, in_row)[None, :]
            mixed += tl.where(two, other, 0.0)
            out += dot(mixed, load_rows(V + head * T * P, j, in_row, P, p), LOW, PREC)
    tl.store(y + head * T * P + i[:, None] * P + p[None, :], out, mask=inside[:, None] & (p < P)[None, :])


@triton.jit
def stored_value_gradients(
    w, beta, S, X, g, masks, dbeta, dV, downs, height, width, T, E, N, P, D, heads, share,
    BI: tl.constexpr, WP: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr, LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Gradients of V and β. Programs: block of rows of nodes j, head, block of P."""
    first, head = tl.program_id(0) * BI, tl.program_id(1).to(tl.int64)
    group, size = head // share, height * WP * WP
    p, k = tl.program_id(2) * BP + tl.arange(0, BP), tl.arange(0, WP)
    j, inside = block_nodes(first, height, width, BI, WP)
    written = inside & (tl.program_id(2) == 0)
    out = tl.zeros([BI, BP], tl.float32)
    for number in range(0, (downs + 1) // 2 + (D - downs + 1) // 2):
        d, e, two, down = _pair(number, downs, D)
        a, b = d * heads + head, e * heads + head
        S_d, S_e = S + (d * (heads // share) + group) * T * T, S + (e * (heads // share) + group) * T * T
        scale_d, scale_e = _load(beta + a * T, j, inside), tl.where(two, _load(beta + b * T, j, inside), 0.0)
        start, step, count = visits(first, height, 1 - down, BI, WP)
        L, M = tl.zeros([BI, WP], tl.float32), tl.zeros([BI, WP], tl.float32)
        dbeta_d, dbeta_e = tl.zeros([BI], tl.float32), tl.zeros([BI], tl.float32)
        for visit in range(0, count):
            row = start + visit * step
            L = advance(L, w + a * E, masks + a * size, first, row, step, start, width, BI, WP, PREC, True)
            M = advance(M, w + b * E, masks + b * size, first, row, step, start, width, BI, WP, PREC, True)
            i, in_row = row * width + k, k < width
            x = _transposed(X + head * T * T, T, i, in_row, j, inside)
            mixed, other = L * _transposed(S_d, T, i, in_row, j, inside), M * _transposed(S_e, T, i, in_row, j, inside)
            dbeta_d += tl.sum(mixed * x, axis=1)
            dbeta_e += tl.sum(other * x, axis=1)
            mixed = mixed * scale_d[:, None] + other * scale_e[:, None]
            out += dot(mixed, load_rows(g + head * T * P, i, in_row, P, p), LOW, PREC)
        tl.store(dbeta + a * T + j, dbeta_d, mask=written)
        tl.store(dbeta + b * T + j, dbeta_e, mask=written & two)
    tl.store(dV + head * T * P + j[:, None] * P + p[None, :], out, mask=inside[:, None] & (p < P)[None, :])


@triton.jit
def _transposed(x, T, i, inside_i, j, inside_j):  # type: ignore[no-untyped-def]
    """``x[i, j]`` at [j, i]."""
    mask = inside_j[:, None] & inside_i[None, :]
    return tl.load(x + i[None, :] * T + j[:, None], mask=mask, other=0.0).to(tl.float32)


@triton.jit
def stored_score_gradients(
    w, beta, X, masks, dS, down, height, width, T, E, N, P, heads, share, each,
    BI: tl.constexpr, WP: tl.constexpr, LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """``dS [slots, D, groups, T, T]``, zero before, summed over ``each`` heads of a group.

    Programs: block of rows, share of a group's heads, DAG.
    """
    first, slot, d = tl.program_id(0) * BI, tl.program_id(1), tl.program_id(2)
    group, groups, size = (slot * each // share).to(tl.int64), heads // share, height * WP * WP
    k = tl.arange(0, WP)
    i, inside = block_nodes(first, height, width, BI, WP)
    start, step, count = visits(first, height, (down >> d) & 1, BI, WP)
    dS += ((slot % (share // each) * tl.num_programs(2) + d) * groups + group) * T * T
    for of_slot in range(0, each):
        head = (slot * each + of_slot).to(tl.int64)
        at = d * heads + head
        L = tl.zeros([BI, WP], tl.float32)
        for visit in range(0, count):
            row = start + visit * step
            L = advance(L, w + at * E, masks + at * size, first, row, step, start, width, BI, WP, PREC, False)
            j, in_row = row * width + k, k < width
            added = L * load_tile(X + head * T * T, T, i, inside, j, in_row) * _load(beta + at * T, j, in_row)[None, :]
            place, mask = dS + i[:, None] * T + j[None, :], inside[:, None] & in_row[None, :]
            tl.store(place, added + tl.load(place, mask=mask & (of_slot > 0), other=0.0), mask=mask)
        tl.debug_barrier()
