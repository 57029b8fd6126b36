"""Whole mixes through masks in one call, for mixes so small that calls would cost more than the work.

The masks are those of `chimera_ssm.ops.sweep.kernels_mask`; only the products around them are computed here. Arrays:
``C, B [pairs·groups, T, N]``, ``V, Y [H, T, P]``; leading dimensions may be divided otherwise. T is at least 4, N and P
are multiples of 16.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, load, splat, store, vload, vstore
from chimera_ssm.ops.sweep.kernels_mask import masks_backward, masks_forward


@inlined
def product(out, oo, a, ao, row_step, inner_step, x, xo, rows, inner, columns):
    """Set ``out [rows, columns]`` to ``a x``, each from an offset on; ``a`` is read with the given strides.

    Four rows at a time; some of the last four may be computed twice.
    """
    zero = splat(out.dtype.type(0))
    for first in range(0, rows, 4):
        r = min(first, rows - 4)
        a0 = ao + r * row_step
        a1, a2, a3 = a0 + row_step, a0 + 2 * row_step, a0 + 3 * row_step
        for c in range(0, columns, WIDTH):
            y0, y1, y2, y3 = zero, zero, zero, zero
            for k in range(inner):
                v, q = vload(x, xo + k * columns + c), k * inner_step
                y0 = y0 + splat(load(a, a0 + q)) * v
                y1 = y1 + splat(load(a, a1 + q)) * v
                y2 = y2 + splat(load(a, a2 + q)) * v
                y3 = y3 + splat(load(a, a3 + q)) * v
            o = oo + r * columns + c
            vstore(out, o, y0)
            vstore(out, o + columns, y1)
            vstore(out, o + 2 * columns, y2)
            vstore(out, o + 3 * columns, y3)


@inlined
def transpose(out, x, xo, rows, columns):
    """Set ``out [columns, ·]`` to the transpose of ``x [rows, columns]`` from offset ``xo`` on."""
    width = out.shape[1]
    for r in range(rows):
        for c in range(columns):
            store(out, c * width + r, load(x, xo + r * columns + c))


@inlined
def products(C, B, groups, K):
    """``S = C Bᵀ``, ``[pairs, groups, T, K]``."""
    blocks, T, N = C.shape
    S, turned = np.empty((blocks // groups, groups, T, K), C.dtype), np.zeros((N, K), C.dtype)
    for b in range(blocks):
        transpose(turned, B, b * T * N, T, N)
        product(S, b * T * K, C, b * T * N, N, 1, turned, 0, T, N, K)
    return S


@inlined
def shaped(plan, w, beta, C, B, V):
    """Inputs with their leading dimensions as the kernels take them."""
    D, T = plan.node.shape
    N, P = C.shape[-1], V.shape[-1]
    H, blocks = V.size // (T * P), C.size // (T * N)  # not -1: there may be no edges, and so no weights to count
    return (
        w.reshape(D, H, w.shape[-1]),
        beta.reshape(D, H, T),
        C.reshape(blocks, T, N),
        B.reshape(blocks, T, N),
        V.reshape(H, T, P),
    )


@kernel
def small_forward(share, plan, w, beta, C, B, V, Y):
    """Set Y to ``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``."""
    w, beta, C, B, V = shaped(plan, w, beta, C, B, V)
    H, T, P = V.shape
    K = -(-T // WIDTH) * WIDTH
    S, M = products(C, B, H // share, K), np.empty((H, T, K), V.dtype)
    masks_forward(0, H, 0, share, plan, w, beta, S, M)
    for h in range(H):
        product(Y, h * T * P, M, h * T * K, K, 1, V, h * T * P, T, T, P)


@kernel
def small_backward(share, plan, back_plan, w, beta, C, B, V, G, dw, dbeta, dC, dB, dV):
    """Set all gradients for incoming ones ``G [H, T, P]``."""
    w, beta, C, B, V = shaped(plan, w, beta, C, B, V)
    dw, dbeta = dw.reshape(w.shape), dbeta.reshape(beta.shape)
    (H, T, P), (blocks, _, N) = V.shape, C.shape
    K = -(-T // WIDTH) * WIDTH
    S, M = products(C, B, H // share, K), np.empty((H, T, K), V.dtype)
    dS, turned = np.empty((1, *S.shape), V.dtype), np.zeros((P, K), V.dtype)
    masks_forward(0, H, 0, share, plan, w, beta, S, M)
    for h in range(H):
        vo, mo = h * T * P, h * T * K
        product(dV, vo, M, mo, 1, K, G, vo, T, T, P)
        transpose(turned, V, vo, T, P)
        product(M, mo, G, vo, P, 1, turned, 0, T, P, K)
    masks_backward(0, blocks, 0, share, 1, back_plan, w, beta, S, M, dw, dbeta, dS)
    for b in range(blocks):
        bo, so = b * T * N, b * T * K
        product(dC, bo, dS, so, K, 1, B, bo, T, T, N)
        product(dB, bo, dS, so, 1, K, C, bo, T, T, N)
