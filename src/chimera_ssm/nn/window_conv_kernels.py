"""Numba kernels of depthwise convolutions over windows, followed by SiLU, and their adjoint.

    y_t = silu(a_t)        a_t = bias + Σ_o weight_o ⊙ x_{table[o, t]}

Arrays: ``table [taps, T]``, T where there is no node, ``weight [taps, D]``, ``bias [D]``, ``y, g, dx [Z, T, D]``; ``x``
is flat, with strides for Z and T. D is a multiple of 16, and so is ``size``, the number of channels of a block.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, fma, load, sigmoid, splat, store, vload, vstore

#: Maximal number of channels of a block: long contiguous reads, while the nodes of a window stay in a cache.
CHANNELS = 512


@inlined
def find_window(table, t, D, nodes, places):
    """Set the nodes in the window of node t and the offsets of their weights; return their number."""
    count, (taps, T) = 0, table.shape
    for o in range(taps):
        if load(table, o * T + t) < T:
            store(nodes, count, load(table, o * T + t))
            store(places, count, o * D)
            count += 1
    return count


@inlined
def affine(out, x, count, factor, origin):
    """Set offsets ``origin + factor x``."""
    for k in range(count):
        store(out, k, origin + factor * load(x, k))


@inlined
def convolved(c, count, rows, places, x, weight, bias):
    """Channels c to c + 16 of a."""
    a = vload(bias, c)
    for k in range(count):
        a = fma(vload(weight, load(places, k) + c), vload(x, load(rows, k) + c), a)
    return a


@inlined
def silu_gradient(g, o, a):
    """The gradient of a, given the gradient of ``silu(a)`` at offset ``o`` of g."""
    s = sigmoid(a)
    return vload(g, o) * s * (1 + a * (1 - s))


@inlined
def add_product(out, o, x, y):
    """Add ``x y`` at offset ``o``."""
    vstore(out, o, fma(x, y, vload(out, o)))


@inlined
def clear(out, o, count, rows, stride):
    """Set ``count`` numbers of each row to zero."""
    for t in range(rows):
        for c in range(0, count, WIDTH):
            vstore(out, o + t * stride + c, splat(out.dtype.type(0)))


@kernel
def forward(first, last, size, table, x, z_stride, t_stride, weight, bias, y):
    """Set y; a task is an entry of Z and a block of channels."""
    (taps, T), D = table.shape, bias.size
    nodes, rows, places = np.empty(taps, np.int64), np.empty(taps, np.int64), np.empty(taps, np.int64)
    blocks = -(-D // size)
    for task in range(first, last):
        z, start = task // blocks, task % blocks * size
        for t in range(T):
            count, o = find_window(table, t, D, nodes, places), (z * T + t) * D
            affine(rows, nodes, count, t_stride, z * z_stride)
            for c in range(start, min(start + size, D), WIDTH):
                a = convolved(c, count, rows, places, x, weight, bias)
                vstore(y, o + c, a * sigmoid(a))


@kernel
def backward(first, last, size, table, x, z_stride, t_stride, weight, bias, g, dx, dweight, dbias):
    """Set ``dx``, add to ``dweight`` and ``dbias`` for incoming gradients g; a task is a block of channels."""
    (taps, T), D = table.shape, bias.size
    nodes, rows, places = np.empty(taps, np.int64), np.empty(taps, np.int64), np.empty(taps, np.int64)
    da = np.empty(size, dx.dtype)
    for task in range(first, last):
        start, stop = task * size, min((task + 1) * size, D)
        for z in range(g.shape[0]):
            clear(dx, z * T * D + start, stop - start, T, D)
            for t in range(T):
                count, o = find_window(table, t, D, nodes, places), (z * T + t) * D
                affine(rows, nodes, count, t_stride, z * z_stride)
                for c in range(start, stop, WIDTH):
                    d = silu_gradient(g, o + c, convolved(c, count, rows, places, x, weight, bias))
                    vstore(da, c - start, d)
                    vstore(dbias, c, vload(dbias, c) + d)
                for k in range(count):
                    row, w, to = load(rows, k), load(places, k), (z * T + load(nodes, k)) * D
                    for c in range(start, stop, WIDTH):
                        d = vload(da, c - start)
                        add_product(dweight, w + c, d, vload(x, row + c))
                        add_product(dx, to + c, d, vload(weight, w + c))
