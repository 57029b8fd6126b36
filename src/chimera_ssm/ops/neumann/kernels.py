"""The truncated series ``x = Σ_{k≤n} Aᵏ b`` and its adjoint, n for each part: all terms of a few columns at a time.

Columns that are zero within a part cost nothing there: a mask has as many as the largest part, of which others use few.

Arrays: ``w [H, E]``, ``b, x, g, db [H, T, K]`` with K a multiple of 32. Parts are nodes ``part[p]`` to ``part[p + 1]``;
the edges into node t are ``begin[t]`` to ``begin[t + 1]`` of ``edge`` and ``source``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, aligned_empty, clear, fma, horizontal_sum, load, splat, store, vload, vstore
from chimera_ssm.ops.spmm.kernels import sort_by_target
from chimera_ssm.topology import Topology

#: Columns that are worked on at once: two vectors for each edge that is looked up.
LANES = 2 * WIDTH


class SeriesPlan(NamedTuple):
    """Edges by the node they enter, and where parts begin."""

    part: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    source: np.ndarray


def series_plan(topology: Topology) -> SeriesPlan:
    """The plan of a topology."""
    part = np.cumsum([0, *(part.num_nodes for part in topology.parts)]).astype(np.int32)
    return SeriesPlan(part, *sort_by_target(topology, np.arange(topology.num_nodes)))


@kernel
def forward(first, last, plan, power, w, b, x):
    """Tasks are heads times parts times blocks of columns."""
    (_, nodes, K), parts = x.shape, plan.part.size - 1
    blocks = K // LANES
    terms = aligned_empty(2 * np.diff(plan.part).max() * LANES, x.dtype)
    for task in range(first, last):
        head, p, c = task // (parts * blocks), task // blocks % parts, task % blocks * LANES
        start, stop = plan.part[p], plan.part[p + 1]
        here, weights = (head * nodes + start) * K + c, weights_of(plan, start, stop, w, head)
        old, new = 0, (stop - start) * LANES
        gather(b, here, K, terms, old, stop - start)
        for _ in range(power[p] if any_in(b, here, K, stop - start) else 0):
            step(plan, start, stop, weights, b, here, K, terms, old, new)
            old, new = new, old
        for t in range(stop - start):
            write(x, here + t * K, read(terms, old + t * LANES))


@kernel
def backward(first, last, slots, plan, back, power, w, b, g, dw, db):
    """Tasks are heads times parts times slots: ranges of columns, whose gradients ``dw [slots, H, E]`` are apart.

    ``back`` is the plan of the flipped topology. ``db`` is empty if it is not needed.
    """
    (heads, nodes, K), parts, edges = b.shape, plan.part.size - 1, w.shape[1]
    blocks, largest = K // LANES, np.diff(plan.part).max() * LANES
    terms, adjoint = aligned_empty(max(1, power.max()) * largest, b.dtype), aligned_empty(2 * largest, b.dtype)
    for task in range(first, last):
        head, p, slot = task // (parts * slots), task // slots % parts, task % slots
        start, stop = plan.part[p], plan.part[p + 1]
        lowest, size = back.begin[start], (stop - start) * LANES
        weights, back_weights = weights_of(plan, start, stop, w, head), weights_of(back, start, stop, w, head)
        products = aligned_empty(weights.size * LANES, b.dtype)
        clear(products, 0, products.size)
        for block in range(blocks * slot // slots, blocks * (slot + 1) // slots):
            here = (head * nodes + start) * K + block * LANES
            if db.size == 0 and not any_in(b, here, K, stop - start):
                continue
            gather(b, here, K, terms, 0, stop - start)
            for k in range(1, power[p]):
                step(plan, start, stop, weights, b, here, K, terms, (k - 1) * size, k * size)
            gather(g, here, K, adjoint, 0, stop - start)
            for t in range(stop - start if db.size else 0):
                write(db, here + t * K, read(g, here + t * K))
            old, new = 0, size
            for k in range(power[p] - 1, -1, -1):
                step_back(back, start, stop, back_weights, terms, k * size, adjoint, old, new, products)
                for t in range(stop - start if db.size else 0):
                    o, row = here + t * K, read(adjoint, new + t * LANES)
                    vstore(db, o, vload(db, o) + row[0])
                    vstore(db, o + WIDTH, vload(db, o + WIDTH) + row[1])
                old, new = new, old
        for e in range(weights.size):
            row = read(products, e * LANES)
            store(dw, (slot * heads + head) * edges + load(back.edge, lowest + e), horizontal_sum(row[0] + row[1]))


@inlined
def weights_of(plan, start, stop, w, head):
    """Weights of a part's edges in the order of the plan."""
    lowest = plan.begin[start]
    weights = np.empty(plan.begin[stop] - lowest, w.dtype)
    for e in range(weights.size):
        store(weights, e, load(w, head * w.shape[1] + load(plan.edge, lowest + e)))
    return weights


@inlined
def any_in(x, o, K, count):
    """Whether a block of columns has anything but zeros."""
    for t in range(count):
        for c in range(LANES):
            if load(x, o + t * K + c) != 0:
                return True
    return False


@inlined
def gather(x, o, K, block, to, count):
    """Copy a block of columns of ``count`` rows."""
    for t in range(count):
        write(block, to + t * LANES, read(x, o + t * K))


@inlined
def read(x, o):
    """A row of a block."""
    return vload(x, o), vload(x, o + WIDTH)


@inlined
def write(x, o, row):
    """Store a row of a block."""
    vstore(x, o, row[0])
    vstore(x, o + WIDTH, row[1])


@inlined
def step(plan, start, stop, weights, b, here, K, terms, old, new):
    """``new = b + A old`` for the rows of a part."""
    lowest = plan.begin[start]
    for t in range(start, stop):
        x = read(b, here + (t - start) * K)
        for e in range(load(plan.begin, t), load(plan.begin, t + 1)):
            a, row = load(weights, e - lowest), read(terms, old + (load(plan.source, e) - start) * LANES)
            x = fma(a, row[0], x[0]), fma(a, row[1], x[1])
        write(terms, new + (t - start) * LANES, x)


@inlined
def step_back(back, start, stop, weights, terms, before, adjoint, old, new, products):
    """``new = Aᵀ old``, and ``products[e] += old[target] · term[source]``, column by column, for each source."""
    lowest, zero = back.begin[start], splat(weights.dtype.type(0))
    for s in range(start, stop):
        term, x = read(terms, before + (s - start) * LANES), (zero, zero)
        for e in range(load(back.begin, s), load(back.begin, s + 1)):
            a, q = load(weights, e - lowest), (e - lowest) * LANES
            y, product = read(adjoint, old + (load(back.source, e) - start) * LANES), read(products, q)
            x = fma(a, y[0], x[0]), fma(a, y[1], x[1])
            write(products, q, (fma(y[0], term[0], product[0]), fma(y[1], term[1], product[1])))
        write(adjoint, new + (s - start) * LANES, x)
