"""A block of states: four of the N states of a node by sixteen of its P channels, four vectors in registers."""

from chimera_ssm.cpu.compilation import inlined
from chimera_ssm.cpu.simd import WIDTH, add_totals, fma, load, splat, vload, vstore

STATES, CHANNELS = 4, WIDTH
BLOCK = STATES * CHANNELS


@inlined
def read(h, o):
    """The block at offset ``o``: a vector of channels for each state."""
    return vload(h, o), vload(h, o + 16), vload(h, o + 32), vload(h, o + 48)


@inlined
def write(h, o, x):
    """Store a block at offset ``o``."""
    vstore(h, o, x[0])
    vstore(h, o + 16, x[1])
    vstore(h, o + 32, x[2])
    vstore(h, o + 48, x[3])


@inlined
def plus(x, w, y):
    """``x + w y`` of blocks and a number."""
    w = splat(w)
    return fma(w, y[0], x[0]), fma(w, y[1], x[1]), fma(w, y[2], x[2]), fma(w, y[3], x[3])


@inlined
def outer(b, o, v):
    """``b vᵀ`` for the four numbers at offset ``o`` of ``b`` and a vector of channels."""
    return load(b, o) * v, load(b, o + 1) * v, load(b, o + 2) * v, load(b, o + 3) * v


@inlined
def inner(y, c, o, x):
    """``y + cᵀ x``: a vector of channels."""
    return fma(load(c, o + 3), x[3], fma(load(c, o + 2), x[2], fma(load(c, o + 1), x[1], fma(load(c, o), x[0], y))))


@inlined
def times(w, x):
    """``w x`` of a number and a block."""
    w = splat(w)
    return w * x[0], w * x[1], w * x[2], w * x[3]


@inlined
def add_lanes(out, o, x, y):
    """Add ``Σ x y`` of blocks to sixteen numbers at offset ``o``, lane by lane."""
    vstore(out, o, fma(x[3], y[3], fma(x[2], y[2], fma(x[1], y[1], fma(x[0], y[0], vload(out, o))))))


@inlined
def sum_of(x, y):
    """The sum of two blocks."""
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]


@inlined
def add_products(out, o, x, v):
    """Add ``x v`` to the four numbers at offset ``o``."""
    add_totals(out, o, x[0] * v, x[1] * v, x[2] * v, x[3] * v)
