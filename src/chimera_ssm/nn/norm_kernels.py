"""Numba kernels of the root mean square norm with skip connection and gate, and its adjoint.

    a = x + skip ⊙ V        u = a · silu(gate)        y = weight · u · rate        rate = 1 / √(mean(u²) + eps)

Arrays: ``x, V [Z, H, T, P]`` and ``gate [Z, T, H·P]`` are flat, with strides for all but the last dimension;
``skip [H]``, ``weight [H·P]``, ``y, g [Z, T, H·P]``, ``rate [Z, T]``. If V or gate is empty, its term or factor is left
out. P is a multiple of 16. A task is a range of rows.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, horizontal_sum, load, sigmoid, splat, store, vload, vstore

#: Number of ranges of rows; each accumulates its own parameter gradients, which are then summed.
TASKS = 16


@inlined
def row_offset(row, T, strides):
    """Offset of a row."""
    return row // T * strides[0] + row % T * strides[-1]


@inlined
def add_skip(out, x, xo, x_stride, V, vo, v_stride, skip, P):
    """Set a row of ``out`` to a = x + skip V."""
    for h in range(skip.size):
        d, x_head, v_head = splat(load(skip, h)), xo + h * x_stride, vo + h * v_stride
        for p in range(0, P, WIDTH):
            a = vload(x, x_head + p)
            if V.size > 0:
                a = a + d * vload(V, v_head + p)
            vstore(out, h * P + p, a)


@kernel
def forward(first, last, x, x_strides, V, v_strides, skip, gate, gate_strides, weight, eps, y, rate):
    """Set y and ``rate``."""
    (Z, T), D = rate.shape, weight.size
    a = np.empty(D, y.dtype)
    for row in range(Z * T * first // TASKS, Z * T * last // TASKS):
        xo, vo, go = row_offset(row, T, x_strides), row_offset(row, T, v_strides), row_offset(row, T, gate_strides)
        add_skip(a, x, xo, x_strides[1], V, vo, v_strides[1], skip, D // skip.size)
        squares = splat(y.dtype.type(0))
        for c in range(0, D, WIDTH):
            u = vload(a, c)
            if gate.size > 0:
                z = vload(gate, go + c)
                u = u * (z * sigmoid(z))
                vstore(a, c, u)
            squares = squares + u * u
        r = 1 / np.sqrt(horizontal_sum(squares) / D + eps)
        store(rate, row, y.dtype.type(r))
        for c in range(0, D, WIDTH):
            vstore(y, row * D + c, splat(load(rate, row)) * vload(weight, c) * vload(a, c))


@inlined
def weighted_sum(a, s, gate, go, weight, r, g, o, dweight, dwo):
    """Return ``Σ weight g u`` of a row; set s to ``sigmoid(gate)`` and add to ``dweight``."""
    along = splat(a.dtype.type(0))
    for c in range(0, a.size, WIDTH):
        u = vload(a, c)
        if gate.size > 0:
            z = vload(gate, go + c)
            sigma = sigmoid(z)
            vstore(s, c, sigma)
            u = u * (z * sigma)
        product = vload(g, o + c) * u
        along = along + vload(weight, c) * product
        vstore(dweight, dwo + c, vload(dweight, dwo + c) + r * product)
    return horizontal_sum(along)


@inlined
def gate_gradients(da, a, s, gate, go, weight, r, factor, g, o, dgate):
    """Set ``da`` and ``dgate`` of a row, with ``du = rate weight g − factor u``."""
    for c in range(0, a.size, WIDTH):
        du = r * vload(weight, c) * vload(g, o + c)
        if gate.size > 0:
            z, sigma = vload(gate, go + c), vload(s, c)
            opened = z * sigma
            du = du - factor * (opened * vload(a, c))
            vstore(dgate, o + c, du * vload(a, c) * (sigma * (1 + z * (1 - sigma))))
            vstore(da, c, du * opened)
        else:
            vstore(da, c, du - factor * vload(a, c))


@inlined
def skip_gradients(da, dx, o, o_stride, V, vo, v_stride, skip, P, dV, dskip, dso):
    """Set ``dx`` and ``dV`` of a row and add to ``dskip``, given ``da``."""
    for h in range(skip.size):
        d, sums, head = splat(load(skip, h)), vload(dskip, dso + WIDTH * h), o + h * o_stride
        for p in range(0, P, WIDTH):
            x = vload(da, h * P + p)
            vstore(dx, head + p, x)
            if V.size > 0:
                vstore(dV, head + p, d * x)
                sums = sums + x * vload(V, vo + h * v_stride + p)
        vstore(dskip, dso + WIDTH * h, sums)


@kernel
def backward(
    first, last, x, x_strides, V, v_strides, skip, gate, gate_strides, weight, rate, g, dx, dV, dskip, dgate, dweight
):  # fmt: skip
    """Set ``dx, dV [Z, H, T, P]``, ``dgate [Z, T, H·P]``; add to ``dskip [TASKS, H, 16]``, ``dweight [TASKS, H·P]``."""
    (Z, T), D, H = rate.shape, weight.size, skip.size
    P, a, s, da = D // H, np.empty(D, rate.dtype), np.empty(D, rate.dtype), np.empty(D, rate.dtype)
    for task in range(first, last):
        for row in range(Z * T * task // TASKS, Z * T * (task + 1) // TASKS):
            xo, vo, go = row_offset(row, T, x_strides), row_offset(row, T, v_strides), row_offset(row, T, gate_strides)
            o, r = row * D, splat(load(rate, row))
            add_skip(a, x, xo, x_strides[1], V, vo, v_strides[1], skip, P)
            along = weighted_sum(a, s, gate, go, weight, r, g, o, dweight, task * D)
            gate_gradients(da, a, s, gate, go, weight, r, r * r * r * (along / D), g, o, dgate)
            to = row // T * T * D + row % T * P
            skip_gradients(da, dx, to, T * P, V, vo, v_strides[1], skip, P, dV, dskip, task * H * WIDTH)
