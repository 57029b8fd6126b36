"""A Triton kernel that inverts batches of small matrices: Gauss–Jordan elimination with partial pivoting, in place.

Sixteen columns K at a time are eliminated in registers. Their pivots are rows R, which stay where they are:

    X_K ← Q,      X ← X with rows R set to zero + Q X_R      in the other columns

Where the pivot of column k is in row r_k, the inverse is found as ``(M⁻¹)[k, r_m] = X[r_k, m]``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from chimera_ssm.gpu.matmul import dot


@triton.jit
def _eliminate(Q, free, count, SP: tl.constexpr):  # type: ignore[no-untyped-def]
    """Gauss–Jordan elimination of the first columns of ``Q [SP, 16]``, with pivots in free rows.

    Returns Q, the rows that are still free, and the pivot row of each column.
    """
    i, k = tl.arange(0, SP), tl.arange(0, 16)
    pivots = tl.zeros([16], tl.int32)
    for step in range(0, count):
        column = tl.sum(tl.where(k[None, :] == step, Q, 0.0), axis=1)
        size = tl.where(column == column, tl.abs(column), 0.0)  # NaN is not equal to itself
        pivot = tl.argmax(tl.where(free == 1, size, -1.0), axis=0)
        row = tl.sum(tl.where(i[:, None] == pivot, Q, 0.0), axis=0)
        entry = tl.sum(tl.where(k == step, row, 0.0), axis=0)
        row = tl.where(k == step, 1.0, row) / entry
        Q = tl.where(k[None, :] == step, 0.0, Q) - column[:, None] * row[None, :]
        Q = tl.where(i[:, None] == pivot, row[None, :], Q)
        free, pivots = tl.where(i == pivot, 0, free), tl.where(k == step, pivot, pivots)
    return Q, free, pivots


@triton.jit
def invert(X, inverse, order, S, SP: tl.constexpr, BC: tl.constexpr):  # type: ignore[no-untyped-def]
    """The inverse of each matrix of ``X [·, S, S]``, which is overwritten; ``order [·, S]`` is scratch memory.

    Programs: matrix. SP is the power of two from S on; the other columns are updated in blocks of ``BC``.
    """
    number = tl.program_id(0).to(tl.int64)
    X, inverse, order = X + number * S * S, inverse + number * S * S, order + number * S
    i, k = tl.arange(0, SP), tl.arange(0, 16)
    rows = X + i[:, None] * S
    free = tl.where(i < S, 1, 0)
    for first in range(0, S, 16):
        count = tl.minimum(16, S - first)
        of_panel = (i < S)[:, None] & (k < count)[None, :]
        Q = tl.load(rows + first + k[None, :], mask=of_panel, other=0.0)
        Q, still_free, pivots = _eliminate(Q, free, count, SP)
        kept = still_free == free
        free = still_free
        tl.debug_barrier()
        tl.store(rows + first + k[None, :], Q, mask=of_panel)
        tl.store(order + first + k, pivots, mask=k < count)
        for start in range(0, S, BC):
            column = start + tl.arange(0, BC)
            other = (column < S) & ((column < first) | (column >= first + 16))
            pivot_rows = X + pivots[:, None] * S + column[None, :]
            at_pivots = tl.load(pivot_rows, mask=(k < count)[:, None] & other[None, :], other=0.0)
            inside = (i < S)[:, None] & other[None, :]
            block = tl.load(rows + column[None, :], mask=inside & kept[:, None], other=0.0)
            block += dot(Q, at_pivots, tl.float32, "ieee")
            tl.debug_barrier()  # all threads have read the rows of the pivots
            tl.store(rows + column[None, :], block, mask=inside)
        tl.debug_barrier()
    rows = X + tl.load(order + i, mask=i < S, other=0)[:, None] * S
    for start in range(0, S, BC):
        column = start + tl.arange(0, BC)
        inside = (i < S)[:, None] & (column < S)[None, :]
        to = tl.load(order + column, mask=column < S, other=0)
        block = tl.load(rows + column[None, :], mask=inside, other=0.0)
        tl.store(inverse + i[:, None] * S + to[None, :], block, mask=inside)
