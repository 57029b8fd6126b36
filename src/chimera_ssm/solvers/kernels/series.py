"""The truncated series ``x = Σ_{k≤n} Aᵏ b`` and its adjoint, n for each part: all terms of a few columns at a time.

Columns that are zero within a part cost nothing there: a mask has as many as the largest part, of which others use few.

Arrays: ``w [H, E]``, ``b, x, g, db [H, T, K]`` with K a multiple of 16. Parts are nodes ``part[p]`` to ``part[p + 1]``;
the edges into node t are ``begin[t]`` to ``begin[t + 1]`` of ``edge`` and ``source``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chimera_ssm.solvers.kernels.jit import inlined, kernel
from chimera_ssm.solvers.kernels.pulls import entering
from chimera_ssm.solvers.kernels.simd import WIDTH, at, fma, load, put, splat, store, total
from chimera_ssm.topology import Topology

#: Columns that are worked on at once.
LANES = WIDTH


class SeriesPlan(NamedTuple):
    """Edges by the node they enter, and where parts begin."""

    part: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    source: np.ndarray


def series_plan(topology: Topology) -> SeriesPlan:
    """The plan of a topology, made once."""
    return topology.once("series plan", lambda: _make(topology))


def _make(topology: Topology) -> SeriesPlan:
    part = np.cumsum([0, *(part.num_nodes for part in topology.parts)]).astype(np.int32)
    return SeriesPlan(part, *entering(topology, np.arange(topology.num_nodes)))


@kernel
def forward(first, last, plan, power, w, b, x):
    """Tasks are heads times parts times blocks of columns."""
    (_, nodes, K), parts = x.shape, plan.part.size - 1
    blocks = K // LANES
    terms = np.empty(2 * np.diff(plan.part).max() * LANES, x.dtype)
    for task in range(first, last):
        head, p, c = task // (parts * blocks), task // blocks % parts, task % blocks * LANES
        start, stop = plan.part[p], plan.part[p + 1]
        here = (head * nodes + start) * K + c
        old, new = 0, (stop - start) * LANES
        gather(b, here, K, terms, old, stop - start)
        for _ in range(power[p] if any_in(b, here, K, stop - start) else 0):
            step(plan, start, stop, w, head * w.shape[1], b, here, K, terms, old, new)
            old, new = new, old
        for t in range(stop - start):
            store(x, here + t * K, load(terms, old + t * LANES))


@kernel
def backward(first, last, slots, plan, power, w, b, g, dw, db):
    """Tasks are heads times parts times slots: ranges of columns, whose gradients ``dw [slots, H, E]`` are apart.

    ``db`` is empty if nobody wants it.
    """
    (heads, nodes, K), parts, edges = b.shape, plan.part.size - 1, w.shape[1]
    blocks, largest = K // LANES, np.diff(plan.part).max() * LANES
    terms, adjoint = np.empty(max(1, power.max()) * largest, b.dtype), np.empty(2 * largest, b.dtype)
    for task in range(first, last):
        head, p, slot = task // (parts * slots), task // slots % parts, task % slots
        start, stop = plan.part[p], plan.part[p + 1]
        lowest, size = plan.begin[start], (stop - start) * LANES
        products = np.zeros((plan.begin[stop] - lowest, LANES), b.dtype)
        for block in range(blocks * slot // slots, blocks * (slot + 1) // slots):
            here = (head * nodes + start) * K + block * LANES
            if db.size == 0 and not any_in(b, here, K, stop - start):
                continue
            gather(b, here, K, terms, 0, stop - start)
            for k in range(1, power[p]):
                step(plan, start, stop, w, head * edges, b, here, K, terms, (k - 1) * size, k * size)
            gather(g, here, K, adjoint, 0, stop - start)
            for t in range(stop - start if db.size else 0):
                store(db, here + t * K, load(g, here + t * K))
            old, new = 0, size
            for k in range(power[p] - 1, -1, -1):
                step_back(plan, start, stop, w, head * edges, terms, k * size, adjoint, old, new, products)
                for t in range(stop - start if db.size else 0):
                    o = here + t * K
                    store(db, o, load(db, o) + load(adjoint, new + t * LANES))
                old, new = new, old
        for e in range(lowest, plan.begin[stop]):
            put(dw, (slot * heads + head) * edges + at(plan.edge, e), total(load(products, (e - lowest) * LANES)))


@inlined
def any_in(x, o, K, count):
    """Whether a block of columns has anything but zeros."""
    for t in range(count):
        for c in range(LANES):
            if at(x, o + t * K + c) != 0:
                return True
    return False


@inlined
def gather(x, o, K, block, to, count):
    """Copy a block of columns of so many rows."""
    for t in range(count):
        store(block, to + t * LANES, load(x, o + t * K))


@inlined
def step(plan, start, stop, w, wo, b, here, K, terms, old, new):
    """``new = b + A old`` for the rows of a part."""
    for t in range(start, stop):
        x = load(b, here + (t - start) * K)
        for e in range(at(plan.begin, t), at(plan.begin, t + 1)):
            x = fma(at(w, wo + at(plan.edge, e)), load(terms, old + (at(plan.source, e) - start) * LANES), x)
        store(terms, new + (t - start) * LANES, x)


@inlined
def step_back(plan, start, stop, w, wo, terms, before, adjoint, old, new, products):
    """``new = Aᵀ old``, and ``products[e] += old[target] · term[source]``, column by column."""
    lowest, zero = plan.begin[start], splat(w.dtype.type(0))
    for t in range(stop - start):
        store(adjoint, new + t * LANES, zero)
    for t in range(start, stop):
        x = load(adjoint, old + (t - start) * LANES)
        for e in range(at(plan.begin, t), at(plan.begin, t + 1)):
            s, q, a = (at(plan.source, e) - start) * LANES, (e - lowest) * LANES, at(w, wo + at(plan.edge, e))
            store(adjoint, new + s, fma(a, x, load(adjoint, new + s)))
            store(products, q, fma(x, load(terms, before + s), load(products, q)))
