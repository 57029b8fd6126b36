"""Products of small matrices in a cache, tile by tile.

A matrix is ``(array, offset, stride)``: the element (r, c) is at ``offset + r·stride + c``. A tile is eight rows of
sixteen columns, eight registers of AVX-512, or four rows where a register holds fewer than sixteen numbers: as many
sums at once as keep a processor's two multipliers busy. Rows are multiples of 8 and columns of 16.
"""

from llvmlite.binding import get_host_cpu_features
from numba.core import config

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, aligned_empty, fma, load, splat, transpose_4, vload, vstore

ROWS, COLUMNS = 8, WIDTH
#: Whether sixteen numbers are one register on the machine for which Numba compiles.
_WIDE = config.CPU_NAME in (None, "", "host") and get_host_cpu_features().get("avx512f", False)


@inlined
def spaced(columns):
    """A distance of rows: an odd number of tiles, so that the rows of a tile spread over the cache."""
    return columns + COLUMNS * (1 - columns // COLUMNS % 2)


@inlined
def matrix(rows, columns, dtype):
    """Room for a matrix."""
    return aligned_empty(rows * spaced(columns), dtype), 0, spaced(columns)


@kernel
def multiply(keep, out, rows, columns, a, a_column, b, size):
    """``out = keep · out + a b``, where out is not read if ``keep`` is 0; a of ``rows`` × ``size``, b × ``columns``.

    Elements of a row of a are ``a_column`` apart: a may be a transpose.
    """
    for c in range(0, columns, COLUMNS):
        for r in range(0, rows, ROWS):
            tile(keep, out, r, c, a[0], a[1] + r * a[2], a[2], a_column, b[0], b[1] + c, b[2], size)


@kernel
def multiply_lower(keep, out, rows, columns, a, b):
    """The same for a square a that has zeros above its diagonal."""
    for c in range(0, columns, COLUMNS):
        for r in range(0, rows, ROWS):
            tile(keep, out, r, c, a[0], a[1] + r * a[2], a[2], 1, b[0], b[1] + c, b[2], r + ROWS)


@kernel
def multiply_lower_transposed(keep, out, rows, columns, a, b):
    """The same for the transpose of such an a."""
    for c in range(0, columns, COLUMNS):
        for r in range(0, rows, ROWS):
            tile(keep, out, r, c, a[0], a[1] + r * a[2] + r, 1, a[2], b[0], b[1] + r * b[2] + c, b[2], rows - r)


@kernel
def multiply_to_lower(keep, out, rows, a, b, size):
    """The tiles of a square product that are not above its diagonal."""
    for c in range(0, rows, COLUMNS):
        for r in range(c, rows, ROWS):
            tile(keep, out, r, c, a[0], a[1] + r * a[2], a[2], 1, b[0], b[1] + c, b[2], size)


@inlined
def tile(keep, out, r, c, a, ao, a_row, a_column, b, bo, b_stride, size):
    """Eight rows of sixteen columns of a product."""
    o = out[1] + r * out[2] + c
    if _WIDE:
        tile_8(keep, out[0], o, out[2], a, ao, a_row, a_column, b, bo, b_stride, size)
    else:
        tile_4(keep, out[0], o, out[2], a, ao, a_row, a_column, b, bo, b_stride, size)
        tile_4(keep, out[0], o + 4 * out[2], out[2], a, ao + 4 * a_row, a_row, a_column, b, bo, b_stride, size)


@inlined
def tile_8(keep, out, o, stride, a, ao, a_row, a_column, b, bo, b_stride, size):
    """Eight rows at once."""
    y0 = y1 = y2 = y3 = y4 = y5 = y6 = y7 = splat(out.dtype.type(0))
    for k in range(size):
        x, p = vload(b, bo + k * b_stride), ao + k * a_column
        y0, y1 = fma(load(a, p), x, y0), fma(load(a, p + a_row), x, y1)
        y2, y3 = fma(load(a, p + 2 * a_row), x, y2), fma(load(a, p + 3 * a_row), x, y3)
        y4, y5 = fma(load(a, p + 4 * a_row), x, y4), fma(load(a, p + 5 * a_row), x, y5)
        y6, y7 = fma(load(a, p + 6 * a_row), x, y6), fma(load(a, p + 7 * a_row), x, y7)
    leave(keep, out, o, stride, y0, y1, y2, y3)
    leave(keep, out, o + 4 * stride, stride, y4, y5, y6, y7)


@inlined
def tile_4(keep, out, o, stride, a, ao, a_row, a_column, b, bo, b_stride, size):
    """Four rows at once."""
    y0 = y1 = y2 = y3 = splat(out.dtype.type(0))
    for k in range(size):
        x, p = vload(b, bo + k * b_stride), ao + k * a_column
        y0, y1 = fma(load(a, p), x, y0), fma(load(a, p + a_row), x, y1)
        y2, y3 = fma(load(a, p + 2 * a_row), x, y2), fma(load(a, p + 3 * a_row), x, y3)
    leave(keep, out, o, stride, y0, y1, y2, y3)


@inlined
def leave(keep, out, o, stride, y0, y1, y2, y3):
    """Store four rows, what is there times ``keep`` added."""
    if keep != 0:
        y0, y1 = fma(keep, vload(out, o), y0), fma(keep, vload(out, o + stride), y1)
        y2, y3 = fma(keep, vload(out, o + 2 * stride), y2), fma(keep, vload(out, o + 3 * stride), y3)
    vstore(out, o, y0)
    vstore(out, o + stride, y1)
    vstore(out, o + 2 * stride, y2)
    vstore(out, o + 3 * stride, y3)


@kernel
def transpose(out, x, rows, columns):
    """``out = xᵀ``, of ``rows`` × ``columns``."""
    for r in range(0, rows, 4):
        for c in range(0, columns, WIDTH):
            o, s = x[1] + r * x[2] + c, x[2]
            rows_4 = vload(x[0], o), vload(x[0], o + s), vload(x[0], o + 2 * s), vload(x[0], o + 3 * s)
            transpose_4(out[0], out[1] + c * out[2] + r, out[2], *rows_4)
