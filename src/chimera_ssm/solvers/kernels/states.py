"""Mixing by states on acyclic graphs: ``h_t = β_t B_t v_tᵀ + Σ_{s→t} w h_s``, ``y_t = C_tᵀ h_t``, and its adjoint.

A task is one head and sixteen of its P channels. It runs through the graph once for every four of its N states, with a
block of 4 × 16 states, eight vectors, for each node that is still to be read. Nothing of size T·N·P exists.

Arrays: ``w [H, E]``, ``beta [H, T]``, ``B, C [G, N/4, T, 4]`` in the order of steps, ``V, Y [H, T, P]``, with all
leading dimensions in H and G; P is a multiple of 16.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.solvers.kernels.jit import inlined, kernel
from chimera_ssm.solvers.kernels.simd import add_totals, at, load, put, splat, store, total

STATES, CHANNELS = 4, 16
BLOCK = STATES * CHANNELS
#: Blocks of states that the adjoint takes in turn for each segment of nodes.
BLOCKS_IN_TURN = 8


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
def times(w, x):
    """``w x`` of a number and a block."""
    w = splat(w)
    return w * x[0], w * x[1], w * x[2], w * x[3], w * x[4], w * x[5], w * x[6], w * x[7]


@inlined
def add_lanes(out, o, x, y):
    """Add ``Σ x y`` of blocks to eight numbers at offset ``o``, lane by lane."""
    even = x[0] * y[0] + x[2] * y[2] + x[4] * y[4] + x[6] * y[6]
    odd = x[1] * y[1] + x[3] * y[3] + x[5] * y[5] + x[7] * y[7]
    store(out, o, load(out, o) + (even + odd))


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
def weights_of(out, edge, w, origin):
    """Weights of edges in the order of the plan, 0 where there is no edge (−1)."""
    for k in range(edge.size):
        put(out, k, at(w, origin + at(edge, k)) if at(edge, k) >= 0 else w.dtype.type(0))


@inlined
def advance(others, x, k, new, cw, ew, begin, place, h, here):
    """The block of step k: what is new, what step k − 1 hands on (``x``), and what comes from further back."""
    x = plus(new, at(cw, k), x)
    if others == 1:
        x = plus(x, at(ew, k), read(h, here + BLOCK * at(place, k)))
    if others == 2:
        for e in range(at(begin, k), at(begin, k + 1)):
            x = plus(x, at(ew, e), read(h, here + BLOCK * at(place, e)))
    return x


@inlined
def forward(others, first, last, fresh, steps, arrays):
    """Add the mix of one topology to Y, or set Y to it if ``fresh``, for tasks ``first`` to ``last``.

    B and C are in the order of steps. The states before every step that is a multiple of ``stride`` are kept in ``kept
    [tasks, …]``, unless it is empty.
    """
    node, carried, begin, edge, place, slot, slots, segment, stride = steps
    w, beta, B, C, V, Y, kept = arrays
    (heads, edges), (groups, blocks, nodes, _), P = w.shape, B.shape, V.shape[2]
    parts, rows = P // CHANNELS, slots + 3  # after the slots: one never read, what is carried, zeros
    h = np.zeros((blocks, rows, BLOCK), V.dtype)
    v, y = np.empty((segment, CHANNELS), V.dtype), np.empty((segment, CHANNELS), V.dtype)
    cw, ew = np.empty(nodes, V.dtype), np.empty(edge.size, V.dtype)
    for task in range(first, last):
        head = task // parts
        group, bo = head * groups // heads, head * nodes
        vo = bo * P + CHANNELS * (task % parts)
        weights_of(cw, carried, w, head * edges)
        weights_of(ew, edge, w, head * edges)
        h[:] = 0
        for start in range(0, nodes, segment):
            count = min(nodes - start, segment)
            if kept.size > 0 and start % stride == 0:
                cross(kept, (task * -(-nodes // stride) + start // stride) * h.size, h, 0, h.size)
            gather(v, V, node, start, count, vo, P)
            multiply(v, beta, node, start, count, bo)
            if fresh:
                y[:] = 0
            else:
                gather(y, Y, node, start, count, vo, P)
            for block in range(blocks):
                here, go = block * rows * BLOCK, ((group * blocks + block) * nodes + start) * STATES
                x = read(h, here + (slots + 1) * BLOCK)
                for j in range(count):
                    q, o = CHANNELS * j, go + STATES * j
                    new = outer(B, o, load(v, q), load(v, q + 8))
                    x = advance(others, x, start + j, new, cw, ew, begin, place, h, here)
                    if others > 0:
                        write(h, here + BLOCK * at(slot, start + j), x)
                    y0, y1 = inner(C, o, x)
                    store(y, q, load(y, q) + y0)
                    store(y, q + 8, load(y, q + 8) + y1)
                write(h, here + (slots + 1) * BLOCK, x)
            scatter(Y, y, node, start, count, vo, P)


class BackSteps(NamedTuple):
    """What the adjoint knows of a topology, see `chimera_ssm.solvers.compiled.states` and `SweepPlan`."""

    node: np.ndarray
    carried: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    place: np.ndarray
    source_slot: np.ndarray
    there: np.ndarray
    latest: np.ndarray
    slot: np.ndarray
    back_slot: np.ndarray
    slots: int
    segment: int


@inlined
def cross_segments(others, start, stop, turn, go, steps, weights, B, v, states, kept, ko):
    """Keep a block's states as they are before step ``start``, then go on to step ``stop``."""
    begin, place, slot, slots = steps.begin, steps.place, steps.slot, steps.slots
    cw, ew = weights
    here = turn * (slots + 3) * BLOCK
    cross(kept, ko, states, here, (slots + 2) * BLOCK)
    x = read(states, here + (slots + 1) * BLOCK)
    for k in range(start, stop):
        new = outer(B, go + STATES * k, load(v, CHANNELS * k), load(v, CHANNELS * k + 8))
        x = advance(others, x, k, new, cw, ew, begin, place, states, here)
        if others > 0:
            write(states, here + BLOCK * at(slot, k), x)
    write(states, here + (slots + 1) * BLOCK, x)


@inlined
def recall_segment(others, start, count, go, dgo, steps, weights, B, v, g, kept, ko, h, dC):
    """All states of a block in a segment, into ``h``, and ``∂C_t += h_t g_t``."""
    begin, there, slots = steps.begin, steps.there, steps.slots
    cw, ew = weights
    cross(h, 0, kept, ko, slots * BLOCK)
    x = read(kept, ko + (slots + 1) * BLOCK)
    write(h, BLOCK * (slots + 3), x)
    for j in range(count):
        q, o = CHANNELS * (start + j), STATES * (start + j)
        new = outer(B, go + o, load(v, q), load(v, q + 8))
        x = advance(others, x, start + j, new, cw, ew, begin, there, h, 0)
        write(h, BLOCK * (slots + 4 + j), x)
        add_products(dC, dgo + o, x, load(g, q), load(g, q + 8))


@inlined
def descend(others, start, count, turn, go, dgo, steps, weights, B, C, v, g, h, adjoint, gradients):
    """λ of a block back through a segment, and what it makes of ``∂v``, ``∂B`` and ``∂w``."""
    begin, source_slot, there = steps.begin, steps.source_slot, steps.there
    latest, back_slot, slots = steps.latest, steps.back_slot, steps.slots
    (cw, ew), (dv, dcw, dew, dB) = weights, gradients
    here = turn * (slots + 3) * BLOCK
    handed = read(adjoint, here + (slots + 1) * BLOCK)
    for j in range(count - 1, -1, -1):
        k, q, o = start + j, CHANNELS * (start + j), STATES * (start + j)
        x = plus(outer(C, go + o, load(g, q), load(g, q + 8)), at(cw, k + 1), handed)
        if others > 0:
            x = sum_of(x, read(adjoint, here + BLOCK * at(back_slot, k)))
        d0, d1 = inner(B, go + o, x)
        store(dv, q, load(dv, q) + d0)
        store(dv, q + 8, load(dv, q + 8) + d1)
        add_products(dB, dgo + o, x, load(v, q), load(v, q + 8))
        add_lanes(dcw, 8 * k, x, read(h, BLOCK * (slots + 3 + j)))
        if others == 1:
            add_lanes(dew, 8 * k, x, read(h, BLOCK * at(there, k)))
            write(adjoint, here + BLOCK * at(source_slot, k), times(at(ew, k), x))
        if others == 2:
            for e in range(at(begin, k), at(begin, k + 1)):
                add_lanes(dew, 8 * e, x, read(h, BLOCK * at(there, e)))
                target = here + BLOCK * at(source_slot, e)
                if at(latest, e):
                    write(adjoint, target, times(at(ew, e), x))
                else:
                    write(adjoint, target, plus(read(adjoint, target), at(ew, e), x))
        handed = x
    write(adjoint, here + (slots + 1) * BLOCK, handed)


@inlined
def hand_out(fresh, head, part, steps, w, beta, V, dv, dcw, dew, dw, dbeta, dV):
    """Gradients of a task to where they belong; those of V are added to others, or the first if ``fresh``."""
    node, carried, edge = steps.node, steps.carried, steps.edge
    (heads, edges), nodes, P = w.shape, node.size, V.shape[2]
    dwo, dbo = (part * heads + head) * edges, (part * heads + head) * nodes
    for k in range(nodes):
        t, q = at(node, k), CHANNELS * k
        o, scale = (head * nodes + t) * P + CHANNELS * part, splat(at(beta, head * nodes + t))
        d0, d1 = load(dv, q), load(dv, q + 8)
        put(dbeta, dbo + t, at(dbeta, dbo + t) + total(d0 * load(V, o) + d1 * load(V, o + 8)))
        store(dV, o, scale * d0 if fresh else load(dV, o) + scale * d0)
        store(dV, o + 8, scale * d1 if fresh else load(dV, o + 8) + scale * d1)
        if at(carried, k) >= 0:
            put(dw, dwo + at(carried, k), total(load(dcw, 8 * k)))
    for e in range(edge.size):
        if at(edge, e) >= 0:
            put(dw, dwo + at(edge, e), total(load(dew, 8 * e)))


@inlined
def backward(others, first, last, fresh, ranges, steps, arrays):
    """The adjoint for incoming gradients ``G [H, T, P]``: λ_t = C_t g_tᵀ + Σ_{t→s} w λ_s.

    ``∂w = ⟨λ_target, h_source⟩``, ``∂B_t = λ_t v_t``, ``∂v_t = λ_tᵀ B_t``, ``∂C_t = h_t g_t``, with v = β V. Tasks
    are divided into ``ranges``, each with gradients of B and C of its own, so that their sum does not depend on
    timing: ``dw [P/16, H, E]``, ``dbeta [P/16, H, T]``, ``dB, dC [ranges, G, N/4, T, 4]``; all are added to, and so is
    dV unless ``fresh``.

    States are computed again for a segment of nodes at a time, eight blocks of states in turn while what belongs to the
    segment's nodes is in the cache. If there are several segments, they are computed once more before, to keep those
    that cross from segment to segment, unless the forward pass has (``kept``). In the rows ``h`` of a segment ``there``
    tells where an edge's source is: among the slots as they were at its begin, or, after the block carried into it,
    among its own steps.
    """
    node, carried, edge, slots, segment = steps.node, steps.carried, steps.edge, steps.slots, steps.segment
    w, beta, B, C, V, G, kept, dw, dbeta, dB, dC, dV = arrays
    (heads, edges), (groups, blocks, nodes, _), P = w.shape, B.shape, V.shape[2]
    parts, segments, rows, together = P // CHANNELS, -(-nodes // segment), slots + 3, min(blocks, BLOCKS_IN_TURN)
    known = kept.size > 0
    crossing, size = kept if known else np.zeros(segments * together * rows * BLOCK, V.dtype), rows * BLOCK
    states, adjoint = np.zeros((together, rows, BLOCK), V.dtype), np.zeros((together, rows, BLOCK), V.dtype)
    h = np.zeros((rows + 1 + segment, BLOCK), V.dtype)
    v, g = np.empty((nodes, CHANNELS), V.dtype), np.empty((nodes, CHANNELS), V.dtype)
    dv = np.empty((nodes, CHANNELS), V.dtype)
    cw, ew = np.zeros(nodes + 1, V.dtype), np.empty(edge.size, V.dtype)
    dcw, dew = np.empty((nodes, 8), V.dtype), np.empty((edge.size, 8), V.dtype)  # sums of eight lanes
    weights = cw, ew
    for r in range(first, last):
        for task in range(heads * parts * r // ranges, heads * parts * (r + 1) // ranges):
            head, part = task // parts, task % parts
            group, vo = head * groups // heads, head * nodes * P + CHANNELS * part
            weights_of(cw, carried, w, head * edges)
            weights_of(ew, edge, w, head * edges)
            gather(v, V, node, 0, nodes, vo, P)
            multiply(v, beta, node, 0, nodes, head * nodes)
            gather(g, G, node, 0, nodes, vo, P)
            dv[:] = 0
            dcw[:] = 0
            dew[:] = 0
            for block in range(0, blocks, together):
                turns, to_slot = min(together, blocks - block), r * groups * blocks * nodes * STATES
                states[:] = 0
                adjoint[:, slots + 1] = 0
                for s in range(0 if known else segments):
                    start, stop = s * segment, min((s + 1) * segment, (segments - 1) * segment)
                    for turn in range(turns):
                        go, ko = (group * blocks + block + turn) * nodes * STATES, (s * together + turn) * size
                        cross_segments(others, start, stop, turn, go, steps, weights, B, v, states, crossing, ko)
                for s in range(segments - 1, -1, -1):
                    start, count = s * segment, min(nodes - s * segment, segment)
                    for turn in range(turns):
                        go, ko = (group * blocks + block + turn) * nodes * STATES, (s * together + turn) * size
                        if known:
                            ko = ((task * segments + s) * blocks + block + turn) * size
                        dgo = go + to_slot
                        recall_segment(others, start, count, go, dgo, steps, weights, B, v, g, crossing, ko, h, dC)
                        gradients = dv, dcw, dew, dB
                        descend(others, start, count, turn, go, dgo, steps, weights, B, C, v, g, h, adjoint, gradients)
            hand_out(fresh, head, part, steps, w, beta, V, dv, dcw, dew, dw, dbeta, dV)


# What steps hear from besides the step before is a constant of each kernel, so that lines and grids run without a
# branch. Functions of a module, not of a factory: only these are found again in the cache on disk.


@kernel
def forward_0(first, last, fresh, steps, arrays):
    """`forward` for lines."""
    forward(0, first, last, fresh, steps, arrays)


@kernel
def forward_1(first, last, fresh, steps, arrays):
    """`forward` for grids and the like."""
    forward(1, first, last, fresh, steps, arrays)


@kernel
def forward_2(first, last, fresh, steps, arrays):
    """`forward` for any topology."""
    forward(2, first, last, fresh, steps, arrays)


@kernel
def backward_0(first, last, fresh, ranges, steps, arrays):
    """`backward` for lines."""
    backward(0, first, last, fresh, ranges, steps, arrays)


@kernel
def backward_1(first, last, fresh, ranges, steps, arrays):
    """`backward` for grids and the like."""
    backward(1, first, last, fresh, ranges, steps, arrays)


@kernel
def backward_2(first, last, fresh, ranges, steps, arrays):
    """`backward` for any topology."""
    backward(2, first, last, fresh, ranges, steps, arrays)


#: By how many steps a step may hear from besides the one before. 0: none, as on lines. 1: at most one, and each is
#: heard by at most one, as on grids: ``edge`` and ``place`` have an entry for every step, −1 and a row of zeros if
#: there is no such edge. 2: any number. What is carried is treated like 1.
KERNELS = {0: (forward_0, backward_0), 1: (forward_1, backward_1), 2: (forward_2, backward_2)}
