"""Mixing by states on acyclic graphs: ``h_t = β_t B_t v_tᵀ + Σ_{s→t} w h_s``, ``y_t = C_tᵀ h_t``, and its adjoint.

A task is one head and sixteen of its P channels. It runs through each segment of nodes once for every four of its N
states, with a block of 4 × 16 states, four vectors, for each node that is still to be read. Nothing of size T·N·P
exists.

Arrays: ``w [H, E]``, ``beta [H, T]``, ``B, C [G, T, N]``, ``V, Y [H, T, P]``, with all leading dimensions in H and G;
N is a multiple of 4, P of 16.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import (
    aligned_empty,
    clear,
    horizontal_sum,
    load,
    splat,
    splat_4,
    store,
    vload,
    vload_4,
    vstore,
)
from chimera_ssm.cpu.tiles import (
    BLOCK,
    CHANNELS,
    STATES,
    add_lanes,
    add_products,
    inner,
    outer,
    plus,
    read,
    sum_of,
    times,
    write,
)

#: Rows after the slots: an unused one, the carried block, zeros.
SPARE = 3


@inlined
def copy(out, o, x, i, size):
    """``size`` numbers, a multiple of a block's."""
    for k in range(0, size, CHANNELS):
        vstore(out, o + k, vload(x, i + k))


@inlined
def enter(near, place, X, origin, stride, node, start, stop):
    """Sixteen channels of each node of a segment, side by side."""
    for k in range(start, stop):
        vstore(near, place + CHANNELS * (k - start), vload(X, origin + load(node, k) * stride))


@inlined
def enter_scaled(near, V, head, P, part, beta, node, start, stop):
    """The same for v = β V, whose place is the first."""
    for k in range(start, stop):
        t = head * node.size + load(node, k)
        vstore(near, CHANNELS * (k - start), load(beta, t) * vload(V, t * P + CHANNELS * part))


@inlined
def leave(X, origin, stride, near, place, node, start, stop):
    """Put them back."""
    for k in range(start, stop):
        vstore(X, origin + load(node, k) * stride, vload(near, place + CHANNELS * (k - start)))


# What is known of a segment lies in several arrays. They are not a power of two apart, or they would compete for the
# same places of a cache, and what is read of one would be taken for what has just been written to another.


@inlined
def plane(count):
    """Distance of what belongs to the nodes of a segment, sixteen channels each: v, then y, or g, ∂v and ∂w."""
    return CHANNELS * (count + 20)


@inlined
def block_stride(count):
    """Distance of packed blocks of states, in whole vectors."""
    return (-(-count * STATES // CHANNELS) + 1) * CHANNELS


@inlined
def pack(out, X, group, node, start, stop):
    """``X [G, T, N]`` of a segment as ``[N/4, segment, 4]``, so that a block finds what it reads side by side."""
    N, stride = X.shape[2], block_stride(stop - start)
    for k in range(start, stop):
        o = (group * node.size + load(node, k)) * N
        for block in range(N // STATES):
            vstore(out, block * stride + (k - start) * STATES, vload_4(X, o + STATES * block))


@inlined
def add_unpacked(X, x, origin, node, start, stop):
    """The reverse, added to what is there, and zeros in its place."""
    N, stride, zero = X.shape[3], block_stride(stop - start), splat_4(x.dtype.type(0))
    for k in range(start, stop):
        o = (origin + load(node, k)) * N
        for block in range(N // STATES):
            q = block * stride + (k - start) * STATES
            vstore(X, o + STATES * block, vload_4(X, o + STATES * block) + vload_4(x, q))
            vstore(x, q, zero)


@inlined
def weights_of(out, edge, start, stop, w, origin):
    """Weights of edges ``start`` to ``stop`` in the order of the plan, 0 where there is no edge (−1)."""
    for k in range(start, stop):
        store(out, k - start, load(w, origin + load(edge, k)) if load(edge, k) >= 0 else w.dtype.type(0))


@inlined
def most_edges(begin, nodes, segment):
    """The largest number of such edges that enter a segment."""
    most = 0
    for start in range(0, nodes, segment):
        most = max(most, load(begin, min(nodes, start + segment)) - load(begin, start))
    return most


@inlined
def advance(others, x, j, start, new, cw, ew, begin, place, h, here):
    """The block of step ``start + j``: the new contribution, those of other edges, and that of the step before.

    The last is added last: the next step waits for it.
    """
    if others == 1:
        new = plus(new, load(ew, j), read(h, here + BLOCK * load(place, start + j)))
    if others == 2:
        for e in range(load(begin, start + j), load(begin, start + j + 1)):
            new = plus(new, load(ew, e - load(begin, start)), read(h, here + BLOCK * load(place, e)))
    return plus(new, load(cw, j), x)


@inlined
def forward(others, first, last, fresh, steps, arrays):
    """Add the mix of one topology to Y, or set Y to it if ``fresh``, for tasks ``first`` to ``last``.

    A bundle of tasks goes through one segment of nodes after the other, so that the segment's B and C are read from a
    cache by all of them.
    """
    node, carried, begin, edge, place, slot, slots, segment, bundle = steps
    w, beta, B, C, V, Y = arrays
    (heads, edges), (groups, nodes, N), P = w.shape, B.shape, V.shape[2]
    parts, blocks, segments, rows = P // CHANNELS, N // STATES, -(-nodes // segment), slots + SPARE
    apart, packed = rows * BLOCK if segments > 1 else 0, blocks * block_stride(segment)
    h = aligned_empty(max(rows * BLOCK, min(bundle, last - first) * blocks * apart), V.dtype)
    near, b, c = (
        aligned_empty(2 * plane(segment), V.dtype),
        aligned_empty(packed, V.dtype),
        aligned_empty(packed, V.dtype),
    )
    cw, ew = np.empty(segment, V.dtype), np.empty(most_edges(begin, nodes, segment), V.dtype)
    zero = splat(V.dtype.type(0))
    for low in range(first, last, bundle):
        clear(h, 0, h.size)
        for s in range(segments):
            start, stop, group = s * segment, min((s + 1) * segment, nodes), -1
            count, y = stop - start, plane(stop - start)
            for task in range(low, min(low + bundle, last)):
                head, part = task // parts, task % parts
                to = head * nodes * P + CHANNELS * part
                if head * groups // heads != group:
                    group = head * groups // heads
                    pack(b, B, group, node, start, stop)
                    pack(c, C, group, node, start, stop)
                weights_of(cw, carried, start, stop, w, head * edges)
                weights_of(ew, edge, load(begin, start), load(begin, stop), w, head * edges)
                enter_scaled(near, V, head, P, part, beta, node, start, stop)
                if fresh:
                    clear(near, y, y + count * CHANNELS)
                else:
                    enter(near, y, Y, to, P, node, start, stop)
                for block in range(blocks):
                    here, bo = ((task - low) * blocks + block) * apart, block * block_stride(count)
                    x = zero, zero, zero, zero
                    if segments > 1:
                        x = read(h, here + (slots + 1) * BLOCK)
                    for j in range(count):
                        q, o = CHANNELS * j, bo + STATES * j
                        x = advance(others, x, j, start, outer(b, o, vload(near, q)), cw, ew, begin, place, h, here)
                        write(h, here + BLOCK * load(slot, start + j), x)
                        vstore(near, y + q, inner(vload(near, y + q), c, o, x))
                    write(h, here + (slots + 1) * BLOCK, x)
                leave(Y, to, P, near, y, node, start, stop)


class BackSteps(NamedTuple):
    """What the adjoint knows of a topology, see `chimera_ssm.ops.sweep.cpu_state` and `SweepPlan`."""

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
    bundle: int


@inlined
def cross_all(others, low, high, size, steps, w, beta, B, V, b, cw, ew, near, crossing):
    """States of tasks ``low`` to ``high`` as they are before each segment, ``crossing [segments, size]``."""
    begin, place, slot, slots = steps.begin, steps.place, steps.slot, steps.slots
    (heads, edges), (groups, nodes, N), P = w.shape, B.shape, V.shape[2]
    parts, blocks, apart = P // CHANNELS, N // STATES, (slots + SPARE) * BLOCK
    clear(crossing, 0, size)
    for start in range(0, nodes - steps.segment, steps.segment):
        stop, group, o = start + steps.segment, -1, start // steps.segment * size
        copy(crossing, o + size, crossing, o, size)
        for task in range(low, high):
            head = task // parts
            if head * groups // heads != group:
                group = head * groups // heads
                pack(b, B, group, steps.node, start, stop)
            weights_of(cw, steps.carried, start, stop, w, head * edges)
            weights_of(ew, steps.edge, load(begin, start), load(begin, stop), w, head * edges)
            enter_scaled(near, V, head, P, task % parts, beta, steps.node, start, stop)
            for block in range(blocks):
                here, bo = o + size + ((task - low) * blocks + block) * apart, block * block_stride(stop - start)
                x = read(crossing, here + (slots + 1) * BLOCK)
                for j in range(stop - start):
                    new = outer(b, bo + STATES * j, vload(near, CHANNELS * j))
                    x = advance(others, x, j, start, new, cw, ew, begin, place, crossing, here)
                    write(crossing, here + BLOCK * load(slot, start + j), x)
                write(crossing, here + (slots + 1) * BLOCK, x)


@inlined
def recompute_segment(others, x, start, count, bo, steps, cw, ew, b, near, h, dc):
    """All states of a block in a segment, into ``h``, from the block carried into it, and ``∂C_t += h_t g_t``."""
    begin, there, slots, g = steps.begin, steps.there, steps.slots, plane(count)
    write(h, BLOCK * (slots + SPARE), x)
    for j in range(count):
        q, o = CHANNELS * j, bo + STATES * j
        x = advance(others, x, j, start, outer(b, o, vload(near, q)), cw, ew, begin, there, h, 0)
        write(h, BLOCK * (slots + SPARE + 1 + j), x)
        add_products(dc, o, x, vload(near, g + q))


@inlined
def descend(others, carry, start, count, bo, steps, cw, ew, b, c, near, h, adjoint, here, dew, db):
    """λ of a block back through a segment, its contributions to ``∂v``, ``∂B``, ``∂w``, and the carried block."""
    begin, source_slot, there = steps.begin, steps.source_slot, steps.there
    latest, back_slot, slots = steps.latest, steps.back_slot, steps.slots
    g, dv, dcw = plane(count), 2 * plane(count), 3 * plane(count)
    for j in range(count - 1, -1, -1):
        k, q, o = start + j, CHANNELS * j, bo + STATES * j
        x = sum_of(outer(c, o, vload(near, g + q)), read(adjoint, here + BLOCK * load(back_slot, k)))
        x = plus(x, load(cw, j + 1), carry)
        vstore(near, dv + q, inner(vload(near, dv + q), b, o, x))
        add_products(db, o, x, vload(near, q))
        add_lanes(near, dcw + q, x, read(h, BLOCK * (slots + SPARE + j)))
        if others == 1:
            add_lanes(dew, q, x, read(h, BLOCK * load(there, k)))
            write(adjoint, here + BLOCK * load(source_slot, k), times(load(ew, j), x))
        if others == 2:
            for e in range(load(begin, k), load(begin, k + 1)):
                i, target = e - load(begin, start), here + BLOCK * load(source_slot, e)
                add_lanes(dew, CHANNELS * i, x, read(h, BLOCK * load(there, e)))
                if load(latest, e):
                    write(adjoint, target, times(load(ew, i), x))
                else:
                    write(adjoint, target, plus(read(adjoint, target), load(ew, i), x))
        carry = x
    return carry


@inlined
def store_gradients(fresh, head, part, start, stop, steps, w, beta, V, near, dew, dw, dbeta, dV):
    """Store the gradients of a task's segment; those of V are added, or set if ``fresh``."""
    node, carried, edge, begin = steps.node, steps.carried, steps.edge, steps.begin
    (heads, edges), nodes, P, dv, dcw = w.shape, node.size, V.shape[2], 2 * plane(stop - start), 3 * plane(stop - start)
    dwo, dbo = (part * heads + head) * edges, (part * heads + head) * nodes
    for k in range(start, stop):
        t, q = load(node, k), CHANNELS * (k - start)
        o, d, scale = (head * nodes + t) * P + CHANNELS * part, vload(near, dv + q), load(beta, head * nodes + t)
        store(dbeta, dbo + t, horizontal_sum(d * vload(V, o)))
        vstore(dV, o, scale * d if fresh else vload(dV, o) + scale * d)
        if load(carried, k) >= 0:
            store(dw, dwo + load(carried, k), horizontal_sum(vload(near, dcw + q)))
    for e in range(load(begin, start), load(begin, stop)):
        if load(edge, e) >= 0:
            store(dw, dwo + load(edge, e), horizontal_sum(vload(dew, CHANNELS * (e - load(begin, start)))))


@inlined
def load_task(head, part, start, stop, steps, w, beta, V, G, cw, ew, near):
    """Weights, v and incoming gradients of a task's segment; their gradients are set to 0."""
    node, begin, (_, nodes, P), count, wo = steps.node, steps.begin, V.shape, stop - start, head * w.shape[1]
    store(cw, count, V.dtype.type(0))
    weights_of(cw, steps.carried, start, min(nodes, stop + 1), w, wo)
    weights_of(ew, steps.edge, load(begin, start), load(begin, stop), w, wo)
    enter_scaled(near, V, head, P, part, beta, node, start, stop)
    enter(near, plane(count), G, head * nodes * P + CHANNELS * part, P, node, start, stop)
    clear(near, 2 * plane(count), 4 * plane(count))


@inlined
def block_adjoint(others, states, position, steps, cw, ew, b, c, near, h, crossing, adjoint, dew, db, dc):
    """Recompute the states of a block in a segment, and take λ back through it.

    ``states`` is whether the segment continues others, and the offset of the states that cross into it; ``position``
    the offsets of the block's adjoint and of its B and C, the first step of the segment and the number of its steps.
    """
    (continued, crossed), (here, bo, start, count) = states, position
    zero, after = splat(near.dtype.type(0)), (steps.slots + 1) * BLOCK
    x = carry = zero, zero, zero, zero
    if continued:
        copy(h, 0, crossing, crossed, steps.slots * BLOCK)
        x = read(crossing, crossed + after)
        carry = read(adjoint, here + after)
    recompute_segment(others, x, start, count, bo, steps, cw, ew, b, near, h, dc)
    carry = descend(others, carry, start, count, bo, steps, cw, ew, b, c, near, h, adjoint, here, dew, db)
    write(adjoint, here + after, carry)


@inlined
def backward(others, first, last, fresh, ranges, steps, arrays):
    """The adjoint for incoming gradients ``G [H, T, P]``: λ_t = C_t g_tᵀ + Σ_{t→s} w λ_s.

    ``∂w = ⟨λ_target, h_source⟩``, ``∂B_t = λ_t v_t``, ``∂v_t = λ_tᵀ B_t``, ``∂C_t = h_t g_t``, with v = β V. Tasks
    are divided into ``ranges``, each with separate gradients of B and C, so that their sum does not depend on
    timing: ``dw [P/16, H, E]`` and ``dbeta [P/16, H, T]`` are set, ``dB, dC [ranges, G, T, N]`` are added to, and so
    is dV unless ``fresh``.

    Tasks go through segments of nodes in bundles, as in `forward`, from the last segment to the first. The states of
    one block in a segment are recomputed from those that cross into it (`cross_all`). In the rows ``h`` of a segment
    ``there`` is the place of an edge's source: among the slots as they were at the start of the segment, or, after the
    carried block, among its own steps.
    """
    node, segment, bundle = steps.node, steps.segment, steps.bundle
    w, beta, B, C, V, G, dw, dbeta, dB, dC, dV = arrays
    (heads, _), (groups, nodes, N), P = w.shape, B.shape, V.shape[2]
    parts, blocks, segments, rows = P // CHANNELS, N // STATES, -(-nodes // segment), steps.slots + SPARE
    apart, packed = rows * BLOCK if segments > 1 else 0, blocks * block_stride(segment)
    size, most = min(bundle, -(-heads * parts // ranges)) * blocks * apart, most_edges(steps.begin, nodes, segment)
    adjoint, crossing = aligned_empty(max(rows * BLOCK, size), V.dtype), aligned_empty(size * segments, V.dtype)
    h, near = aligned_empty((rows + 1 + segment) * BLOCK, V.dtype), aligned_empty(4 * plane(segment), V.dtype)
    dew = aligned_empty(most * CHANNELS, V.dtype)
    b, c, db, dc = (
        aligned_empty(packed, V.dtype),
        aligned_empty(packed, V.dtype),
        aligned_empty(packed, V.dtype),
        aligned_empty(packed, V.dtype),
    )
    cw, ew = np.empty(segment + 1, V.dtype), np.empty(most, V.dtype)
    clear(h, 0, h.size)
    clear(db, 0, packed)
    clear(dc, 0, packed)
    for r in range(first, last):
        end = heads * parts * (r + 1) // ranges
        for low in range(heads * parts * r // ranges, end, bundle):
            if segments > 1:
                cross_all(others, low, min(low + bundle, end), size, steps, w, beta, B, V, b, cw, ew, near, crossing)
            clear(adjoint, 0, adjoint.size)
            for s in range(segments - 1, -1, -1):
                start, stop, group = s * segment, min((s + 1) * segment, nodes), -1
                count = stop - start
                for task in range(low, min(low + bundle, end)):
                    head, part = task // parts, task % parts
                    if head * groups // heads != group:
                        if group >= 0:
                            add_unpacked(dB, db, (r * groups + group) * nodes, node, start, stop)
                            add_unpacked(dC, dc, (r * groups + group) * nodes, node, start, stop)
                        group = head * groups // heads
                        pack(b, B, group, node, start, stop)
                        pack(c, C, group, node, start, stop)
                    load_task(head, part, start, stop, steps, w, beta, V, G, cw, ew, near)
                    clear(dew, 0, dew.size)
                    for block in range(blocks):
                        here, bo = ((task - low) * blocks + block) * apart, block * block_stride(count)
                        states, at_start = (segments > 1, s * size + here), (here, bo, start, count)
                        block_adjoint(others, states, at_start, steps, cw, ew, b, c, near, h, crossing, adjoint,
                                      dew, db, dc)  # fmt: skip
                    store_gradients(fresh, head, part, start, stop, steps, w, beta, V, near, dew, dw, dbeta, dV)
                add_unpacked(dB, db, (r * groups + group) * nodes, node, start, stop)
                add_unpacked(dC, dc, (r * groups + group) * nodes, node, start, stop)


# How many edges a step may have besides that from the step before is a constant of each kernel, so that grids run
# without a branch. Functions of a module, not of a factory: only these are found again in the cache on disk.


@kernel
def forward_1(first, last, fresh, steps, arrays):
    """`forward` for grids and the like."""
    forward(1, first, last, fresh, steps, arrays)


@kernel
def forward_2(first, last, fresh, steps, arrays):
    """`forward` for any topology."""
    forward(2, first, last, fresh, steps, arrays)


@kernel
def backward_1(first, last, fresh, ranges, steps, arrays):
    """`backward` for grids and the like."""
    backward(1, first, last, fresh, ranges, steps, arrays)


@kernel
def backward_2(first, last, fresh, ranges, steps, arrays):
    """`backward` for any topology."""
    backward(2, first, last, fresh, ranges, steps, arrays)


#: By the kind of `OtherEdges`. 1: a step has at most one such edge, and a source at most one such reader, as on grids;
#: ``edge`` and ``place`` have an entry for every step, −1 and a row of zeros if there is no such edge. 2: any number.
#: The carried block is treated as in 1.
KERNELS = {1: (forward_1, backward_1), 2: (forward_2, backward_2)}
