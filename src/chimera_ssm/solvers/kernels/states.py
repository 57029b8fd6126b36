"""Mixing by states on acyclic graphs: ``h_t = β_t B_t v_tᵀ + Σ_{s→t} w h_s``, ``y_t = C_tᵀ h_t``, and its adjoint.

A task is one head and sixteen of its P channels. It runs through the graph once for every four of its N states, with a
block of 4 × 16 states, eight vectors, for each node that is still to be read. Nothing of size T·N·P exists.

Arrays: ``w [H, E]``, ``beta [H, T]``, ``B, C [G, N/4, T, 4]``, ``V, Y [H, T, P]``, with all leading dimensions in H and
G; P is a multiple of 16.
"""

import numpy as np

from chimera_ssm.solvers.kernels.jit import inlined, kernel
from chimera_ssm.solvers.kernels.simd import add_totals, at, load, put, splat, store, total

STATES, CHANNELS = 4, 16
BLOCK = STATES * CHANNELS


@inlined
def read(h, o):
    """The block at offset ``o``: vectors 2n and 2n + 1 are the channels of state n."""
    return (
        load(h, o), load(h, o + 8), load(h, o + 16), load(h, o + 24),
        load(h, o + 32), load(h, o + 40), load(h, o + 48), load(h, o + 56),
    )  # fmt: skip


@inlined
def write(h, o, x):
    """Store a block at offset ``o``."""
    store(h, o, x[0])
    store(h, o + 8, x[1])
    store(h, o + 16, x[2])
    store(h, o + 24, x[3])
    store(h, o + 32, x[4])
    store(h, o + 40, x[5])
    store(h, o + 48, x[6])
    store(h, o + 56, x[7])


@inlined
def plus(x, w, y):
    """``x + w y`` of blocks and a number."""
    w = splat(w)
    return (
        x[0] + w * y[0], x[1] + w * y[1], x[2] + w * y[2], x[3] + w * y[3],
        x[4] + w * y[4], x[5] + w * y[5], x[6] + w * y[6], x[7] + w * y[7],
    )  # fmt: skip


@inlined
def outer(b, o, v0, v1):
    """``b vᵀ`` for the four numbers at offset ``o`` of ``b`` and sixteen channels."""
    b0, b1, b2, b3 = splat(at(b, o)), splat(at(b, o + 1)), splat(at(b, o + 2)), splat(at(b, o + 3))
    return b0 * v0, b0 * v1, b1 * v0, b1 * v1, b2 * v0, b2 * v1, b3 * v0, b3 * v1


@inlined
def inner(c, o, x):
    """``cᵀ x``: sixteen channels, as two vectors."""
    c0, c1, c2, c3 = at(c, o), at(c, o + 1), at(c, o + 2), at(c, o + 3)
    return c0 * x[0] + c1 * x[2] + c2 * x[4] + c3 * x[6], c0 * x[1] + c1 * x[3] + c2 * x[5] + c3 * x[7]


@inlined
def dot(x, y):
    """``Σ x y`` of blocks, a number."""
    return total(
        (x[0] * y[0] + x[1] * y[1] + (x[2] * y[2] + x[3] * y[3]))
        + (x[4] * y[4] + x[5] * y[5] + (x[6] * y[6] + x[7] * y[7]))
    )


@inlined
def gather(out, X, node, start, count, origin, stride):
    """Sixteen channels of ``count`` nodes from step ``start`` on, side by side."""
    for j in range(count):
        q = origin + at(node, start + j) * stride
        store(out, CHANNELS * j, load(X, q))
        store(out, CHANNELS * j + 8, load(X, q + 8))


@inlined
def scatter(X, x, node, start, count, origin, stride):
    """Put them back."""
    for j in range(count):
        q = origin + at(node, start + j) * stride
        store(X, q, load(x, CHANNELS * j))
        store(X, q + 8, load(x, CHANNELS * j + 8))


@inlined
def multiply(x, beta, node, start, count, origin):
    """Multiply the channels of each node by its factor."""
    for j in range(count):
        scale = splat(at(beta, origin + at(node, start + j)))
        store(x, CHANNELS * j, scale * load(x, CHANNELS * j))
        store(x, CHANNELS * j + 8, scale * load(x, CHANNELS * j + 8))


@inlined
def advance(x, k, new, carried, begin, edge, place, w, wo, h, here):
    """The block of step k: what is new, what step k − 1 hands on (``x``), and what comes from further back."""
    e, last = at(begin, k), at(begin, k + 1)
    if e < last:  # grids have one such edge: no loop for it
        new = plus(new, at(w, wo + at(edge, e)), read(h, here + BLOCK * at(place, e)))
        e += 1
        while e < last:
            new = plus(new, at(w, wo + at(edge, e)), read(h, here + BLOCK * at(place, e)))
            e += 1
    if at(carried, k) >= 0:  # last, so that the chain from step to step is one operation long
        new = plus(new, at(w, wo + at(carried, k)), x)
    return new


@kernel
def states_forward(first, last, node, carried, begin, edge, source_slot, slot, slots, segment, w, beta, B, C, V, Y):
    """Add the mix of one topology to Y, for tasks ``first`` to ``last``."""
    (heads, edges), (groups, blocks, nodes, _), P = w.shape, B.shape, V.shape[2]
    parts = P // CHANNELS
    h = np.zeros((blocks, slots + 1, BLOCK), V.dtype)  # the last place is for what is carried
    v, y = np.empty((segment, CHANNELS), V.dtype), np.empty((segment, CHANNELS), V.dtype)
    for task in range(first, last):
        head = task // parts
        group, wo, bo = head * groups // heads, head * edges, head * nodes
        vo = bo * P + CHANNELS * (task % parts)
        for start in range(0, nodes, segment):
            count = min(nodes - start, segment)
            gather(v, V, node, start, count, vo, P)
            multiply(v, beta, node, start, count, bo)
            gather(y, Y, node, start, count, vo, P)
            for block in range(blocks):
                here, go = block * (slots + 1) * BLOCK, (group * blocks + block) * nodes * STATES
                x = read(h, here + slots * BLOCK)
                for j in range(count):
                    k, q = start + j, CHANNELS * j
                    o = go + STATES * at(node, k)
                    new = outer(B, o, load(v, q), load(v, q + 8))
                    x = advance(x, k, new, carried, begin, edge, source_slot, w, wo, h, here)
                    if at(slot, k) >= 0:
                        write(h, here + BLOCK * at(slot, k), x)
                    y0, y1 = inner(C, o, x)
                    store(y, q, load(y, q) + y0)
                    store(y, q + 8, load(y, q + 8) + y1)
                write(h, here + slots * BLOCK, x)
            scatter(Y, y, node, start, count, vo, P)


@kernel
def states_backward(
    first, last, ranges, node, carried, begin, edge, source_slot, place, latest, slot, slots, segment,
    w, beta, B, C, V, G, dw, dbeta, dB, dC, dV,
):  # fmt: skip
    """The adjoint for incoming gradients ``G [H, T, P]``: λ_t = C_t g_tᵀ + Σ_{t→s} w λ_s.

    ``∂w = ⟨λ_target, h_source⟩``, ``∂B_t = λ_t v_t``, ``∂v_t = λ_tᵀ B_t``, ``∂C_t = h_t g_t``, with v = β V. Tasks are
    divided into ``ranges``, each with gradients of B and C of its own, so that their sum does not depend on timing:
    ``dw [P/16, H, E]``, ``dbeta [P/16, H, T]``, ``dB, dC [ranges, G, N/4, T, 4]``; all are added to.

    States are computed once to keep those that cross from segment to segment, and again for a segment at a time. In
    the rows ``h`` of a segment ``place`` tells where an edge's source is: the slots as they were at its begin, then the
    block carried into it, then its own steps.
    """
    (heads, edges), (groups, blocks, nodes, _), P = w.shape, B.shape, V.shape[2]
    parts, segments, rows = P // CHANNELS, -(-nodes // segment), slots + 1
    tasks, crossing = heads * parts, rows * BLOCK
    kept = np.zeros((segments, rows, BLOCK), V.dtype)
    h, adjoint = np.zeros((rows + segment, BLOCK), V.dtype), np.empty((rows, BLOCK), V.dtype)
    v, g, dv = (
        np.empty((nodes, CHANNELS), V.dtype),
        np.empty((nodes, CHANNELS), V.dtype),
        np.empty((nodes, CHANNELS), V.dtype),
    )
    nothing = read(np.zeros(BLOCK, V.dtype), 0)
    for r in range(first, last):
        for task in range(tasks * r // ranges, tasks * (r + 1) // ranges):
            head, part = task // parts, task % parts
            group, wo, bo = head * groups // heads, head * edges, head * nodes
            vo, dwo, dbo = bo * P + CHANNELS * part, (part * heads + head) * edges, (part * heads + head) * nodes
            gather(v, V, node, 0, nodes, vo, P)
            multiply(v, beta, node, 0, nodes, bo)
            gather(g, G, node, 0, nodes, vo, P)
            dv[:] = 0
            for block in range(blocks):
                go, dgo = (
                    (group * blocks + block) * nodes * STATES,
                    ((r * groups + group) * blocks + block) * nodes * STATES,
                )
                x = nothing
                for k in range((segments - 1) * segment):
                    if k % segment == 0:
                        cross(kept, k // segment * crossing, h, 0, slots * BLOCK)
                        write(kept, k // segment * crossing + slots * BLOCK, x)
                    new = outer(B, go + STATES * at(node, k), load(v, CHANNELS * k), load(v, CHANNELS * k + 8))
                    x = advance(x, k, new, carried, begin, edge, source_slot, w, wo, h, 0)
                    if at(slot, k) >= 0:
                        write(h, BLOCK * at(slot, k), x)
                cross(kept, (segments - 1) * crossing, h, 0, slots * BLOCK)
                write(kept, (segments - 1) * crossing + slots * BLOCK, x)
                handed = nothing
                for s in range(segments - 1, -1, -1):
                    start, count = s * segment, min(nodes - s * segment, segment)
                    cross(h, 0, kept, s * crossing, crossing)
                    x = read(h, slots * BLOCK)
                    for j in range(count):
                        k, q = start + j, CHANNELS * (start + j)
                        t = at(node, k)
                        new = outer(B, go + STATES * t, load(v, q), load(v, q + 8))
                        x = advance(x, k, new, carried, begin, edge, place, w, wo, h, 0)
                        write(h, BLOCK * (rows + j), x)
                        add_products(dC, dgo + STATES * t, x, load(g, q), load(g, q + 8))
                    for j in range(count - 1, -1, -1):
                        k, q = start + j, CHANNELS * (start + j)
                        t = at(node, k)
                        o = STATES * t
                        x = outer(C, go + o, load(g, q), load(g, q + 8))
                        if k + 1 < nodes and at(carried, k + 1) >= 0:
                            x = plus(x, at(w, wo + at(carried, k + 1)), handed)
                        if at(slot, k) >= 0:
                            x = sum_of(x, read(adjoint, BLOCK * at(slot, k)))
                        d0, d1 = inner(B, go + o, x)
                        store(dv, q, load(dv, q) + d0)
                        store(dv, q + 8, load(dv, q + 8) + d1)
                        add_products(dB, dgo + o, x, load(v, q), load(v, q + 8))
                        if at(carried, k) >= 0:
                            e = dwo + at(carried, k)
                            put(dw, e, at(dw, e) + dot(x, read(h, BLOCK * (rows + j - 1))))
                        for i in range(at(begin, k), at(begin, k + 1)):
                            e, there = at(edge, i), BLOCK * at(source_slot, i)
                            put(dw, dwo + e, at(dw, dwo + e) + dot(x, read(h, BLOCK * at(place, i))))
                            if at(latest, i):
                                write(adjoint, there, plus(nothing, at(w, wo + e), x))
                            else:
                                write(adjoint, there, plus(read(adjoint, there), at(w, wo + e), x))
                        handed = x
            for k in range(nodes):
                t, q = at(node, k), CHANNELS * k
                scale, there = splat(at(beta, bo + t)), vo + at(node, k) * P
                d0, d1 = load(dv, q), load(dv, q + 8)
                put(dbeta, dbo + t, at(dbeta, dbo + t) + total(d0 * load(V, there) + d1 * load(V, there + 8)))
                store(dV, there, load(dV, there) + scale * d0)
                store(dV, there + 8, load(dV, there + 8) + scale * d1)


@inlined
def cross(out, o, x, i, size):
    """Copy ``size`` numbers, a multiple of a block's."""
    for k in range(0, size, 8):
        store(out, o + k, load(x, i + k))


@inlined
def sum_of(x, y):
    """The sum of two blocks."""
    return (
        x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5], x[6] + y[6], x[7] + y[7],
    )  # fmt: skip


@inlined
def add_products(out, o, x, v0, v1):
    """Add ``x v`` to the four numbers at offset ``o``."""
    add_totals(out, o, x[0] * v0 + x[1] * v1, x[2] * v0 + x[3] * v1, x[4] * v0 + x[5] * v1, x[6] * v0 + x[7] * v1)
