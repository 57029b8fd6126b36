"""Mixing by masks on acyclic graphs: row t of L is β_t at t plus a weighted sum of its parents' rows; and the adjoint.

Rows of L exist only while they are read. The result is ``M = Σ_d L_d ⊙ S_d`` with ``S = C Bᵀ``, for several topologies
on the same nodes: a head's M stays in the cache for all of them. Columns are counted within a part of the
topologies and padded to whole vectors.

Plans of the D topologies are stacked, each array ``[D, ·]``. Arrays: ``w [D, H, E]``, ``beta [D, H, T]``. A chunk of
heads, ``share`` per group, is processed at once; ``start`` is the first of them: ``M, dM [·, R, K]``,
``S [pairs, ·, R, K]`` with R padded rows and K padded columns; topology d uses pair ``which[d]``.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, clear, horizontal_sum, load, splat, store, vload, vstore


class MaskPlan(NamedTuple):
    """Stacked plans of the topologies for the forward pass, arrays ``[D, ·]``; fields as in `SweepPlan`."""

    node: np.ndarray
    row: np.ndarray
    column: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    source_slot: np.ndarray
    slot: np.ndarray
    slots: int
    low: np.ndarray
    high: np.ndarray
    which: np.ndarray


class AdjointPlan(NamedTuple):
    """The same for the backward pass, with the plans of the flipped topologies in ``back_…``.

    Step b of a flipped topology works on the node of step ``back_step[b]``, and reads the rows of its children.
    """

    node: np.ndarray
    row: np.ndarray
    column: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    source_step: np.ndarray
    low: np.ndarray
    high: np.ndarray
    back_step: np.ndarray
    back_begin: np.ndarray
    back_edge: np.ndarray
    back_source_slot: np.ndarray
    back_slot: np.ndarray
    back_slots: int
    which: np.ndarray


@inlined
def weight_and_row(e, stop, edge, place, w, wo, columns, nothing):
    """Weight of edge e and offset of its source's row; zeros if there are no more edges."""
    if e < stop:
        return load(w, wo + load(edge, e)), load(place, e) * columns
    return w.dtype.type(0), nothing


@inlined
def further(x, c, e, stop, edge, place, w, wo, rows, columns):
    """Add the rows of the sources of edges e to ``stop``."""
    for k in range(e, stop):
        x = x + splat(load(w, wo + load(edge, k))) * vload(rows, load(place, k) * columns + c)
    return x


@kernel
def masks_forward(first, last, start, share, plan, w, beta, S, M):
    """Set M to ``Σ_d L_d ⊙ S_d`` for heads ``first`` to ``last`` of the chunk; ``plan`` is a `MaskPlan`."""
    node, row, column, begin, edge, source_slot, slot, slots, low, high, which = plan
    (D, heads, edges), nodes, (_, groups, R, K) = w.shape, node.shape[1], S.shape
    rows = np.empty((slots + 1, K), M.dtype)
    was_low, was_high = np.empty(slots, np.int64), np.empty(slots, np.int64)
    for here in range(first, last):
        mo = here * R * K
        clear(M, mo, mo + R * K)
        for d in range(D):
            wo, bo = (d * heads + start + here) * edges, (d * heads + start + here) * nodes
            so, po, eo = (load(which, d) * groups + here // share) * R * K, d * nodes, d * edge.shape[1]
            rows[:] = 0  # rows are zero outside the range of the step in their slot; the last row stays zero
            was_low[:] = 0
            was_high[:] = 0
            for k in range(po, po + nodes):
                e, stop = eo + load(begin, k + d), eo + load(begin, k + d + 1)
                own, lo, hi = load(slot, k) * K, load(low, k), load(high, k)
                s, m = so + load(row, k) * K, mo + load(row, k) * K
                clear(rows, own + load(was_low, load(slot, k)), own + lo)
                clear(rows, own + hi, own + load(was_high, load(slot, k)))
                w0, r0 = weight_and_row(e, stop, edge, source_slot, w, wo, K, slots * K)
                w1, r1 = weight_and_row(e + 1, stop, edge, source_slot, w, wo, K, slots * K)
                a0, a1 = splat(w0), splat(w1)
                if stop - e > 2:
                    for c in range(lo, hi, WIDTH):
                        x = a0 * vload(rows, r0 + c) + a1 * vload(rows, r1 + c)
                        x = further(x, c, e + 2, stop, edge, source_slot, w, wo, rows, K)
                        vstore(rows, own + c, x)
                        vstore(M, m + c, vload(M, m + c) + x * vload(S, s + c))
                else:
                    for c in range(lo, hi, WIDTH):
                        x = a0 * vload(rows, r0 + c) + a1 * vload(rows, r1 + c)
                        vstore(rows, own + c, x)
                        vstore(M, m + c, vload(M, m + c) + x * vload(S, s + c))
                diagonal, c = load(beta, bo + load(node, k)), load(column, k)
                store(rows, own + c, diagonal)
                store(M, m + c, load(M, m + c) + diagonal * load(S, s + c))
                store(was_low, load(slot, k), lo)
                store(was_high, load(slot, k), hi)


@kernel
def masks_backward(first, last, start, share, splits, plan, w, beta, S, dM, dw, dbeta, dS):
    """The adjoint: Ḡ = S ⊙ dM, Λ = Lᵀ Ḡ, ∂A_ij = Λ_i · L_j, ∂β_t = Λ_tt, ``dS = Σ L ⊙ dM`` over heads and topologies.

    A task is a pair of C and B and a share of a group's heads: ``dS [splits, pairs, groups, R, K]``, ``dw [D, H, E]``
    and ``dbeta [D, H, T]`` are set. L is recomputed, whole, for one head at a time. ``plan`` is an `AdjointPlan`.
    """
    (D, heads, edges), nodes, (pairs, groups, R, K) = w.shape, plan.node.shape[1], S.shape
    L = np.empty((nodes + 1, K), dM.dtype)
    rows = np.zeros((plan.back_slots + 1, K), dM.dtype)  # the last row of both stays zero
    for task in range(first, last):
        group, pair, split = task // (pairs * splits), task // splits % pairs, task % splits
        to, so = ((split * pairs + pair) * groups + group) * R * K, (pair * groups + group) * R * K
        clear(dS, to, to + R * K)
        for d in range(D):
            if load(plan.which, d) != pair:
                continue
            L[:] = 0  # and zero outside each row's range
            for here in range(group * share + share * split // splits, group * share + share * (split + 1) // splits):
                wo, no, mo = (d * heads + start + here) * edges, (d * heads + start + here) * nodes, here * R * K
                recompute_mask(d, plan, wo, no, mo, to, w, beta, dM, L, dS)
                adjoint_of_mask(d, plan, wo, no, mo, so, w, S, dM, L, rows, dw, dbeta)


@inlined
def recompute_mask(d, plan, wo, no, mo, to, w, beta, dM, L, dS):
    """L of topology d and one head, and ``dS += L ⊙ dM``; offsets of the head in w, beta, dM and of the task in dS."""
    node, row, column, begin, edge = plan.node, plan.row, plan.column, plan.begin, plan.edge
    source_step, low, high = plan.source_step, plan.low, plan.high
    nodes, K = node.shape[1], L.shape[1]
    po, eo = d * nodes, d * edge.shape[1]
    for i in range(nodes):
        k, own = po + i, i * K
        e, stop = eo + load(begin, k + d), eo + load(begin, k + d + 1)
        s, m = to + load(row, k) * K, mo + load(row, k) * K
        w0, r0 = weight_and_row(e, stop, edge, source_step, w, wo, K, nodes * K)
        w1, r1 = weight_and_row(e + 1, stop, edge, source_step, w, wo, K, nodes * K)
        a0, a1 = splat(w0), splat(w1)
        if stop - e > 2:
            for c in range(load(low, k), load(high, k), WIDTH):
                x = a0 * vload(L, r0 + c) + a1 * vload(L, r1 + c)
                x = further(x, c, e + 2, stop, edge, source_step, w, wo, L, K)
                vstore(L, own + c, x)
                vstore(dS, s + c, vload(dS, s + c) + x * vload(dM, m + c))
        else:
            for c in range(load(low, k), load(high, k), WIDTH):
                x = a0 * vload(L, r0 + c) + a1 * vload(L, r1 + c)
                vstore(L, own + c, x)
                vstore(dS, s + c, vload(dS, s + c) + x * vload(dM, m + c))
        diagonal, c = load(beta, no + load(node, k)), load(column, k)
        store(L, own + c, diagonal)
        store(dS, s + c, load(dS, s + c) + diagonal * load(dM, m + c))


@inlined
def adjoint_of_mask(d, plan, wo, no, mo, so, w, S, dM, L, rows, dw, dbeta):
    """``Λ = Lᵀ (S ⊙ dM)`` row after row, and from it ``∂A`` and ``∂β`` of topology d and one head."""
    node, row, column, begin, edge = plan.node, plan.row, plan.column, plan.begin, plan.edge
    source_step, low, high = plan.source_step, plan.low, plan.high
    back_step, back_begin, back_edge = plan.back_step, plan.back_begin, plan.back_edge
    back_source_slot, back_slot, back_slots = plan.back_source_slot, plan.back_slot, plan.back_slots
    nodes, K = node.shape[1], L.shape[1]
    po, eo, bo = d * nodes, d * edge.shape[1], d * back_edge.shape[1]
    for b in range(po, po + nodes):
        k = po + load(back_step, b)
        f, end = bo + load(back_begin, b + d), bo + load(back_begin, b + d + 1)
        own, s, m = load(back_slot, b) * K, so + load(row, k) * K, mo + load(row, k) * K
        w0, r0 = weight_and_row(f, end, back_edge, back_source_slot, w, wo, K, back_slots * K)
        w1, r1 = weight_and_row(f + 1, end, back_edge, back_source_slot, w, wo, K, back_slots * K)
        a0, a1 = splat(w0), splat(w1)
        e, stop, lo, hi = eo + load(begin, k + d), eo + load(begin, k + d + 1), load(low, k), load(high, k)
        p0 = load(source_step, e) * K if e < stop else nodes * K
        p1 = load(source_step, e + 1) * K if e + 1 < stop else nodes * K
        d0 = splat(w.dtype.type(0))
        d1 = d0
        if end - f > 2:
            for c in range(lo, hi, WIDTH):
                x = vload(S, s + c) * vload(dM, m + c) + a0 * vload(rows, r0 + c) + a1 * vload(rows, r1 + c)
                x = further(x, c, f + 2, end, back_edge, back_source_slot, w, wo, rows, K)
                vstore(rows, own + c, x)
                d0 = d0 + x * vload(L, p0 + c)
                d1 = d1 + x * vload(L, p1 + c)
        else:
            for c in range(lo, hi, WIDTH):
                x = vload(S, s + c) * vload(dM, m + c) + a0 * vload(rows, r0 + c) + a1 * vload(rows, r1 + c)
                vstore(rows, own + c, x)
                d0 = d0 + x * vload(L, p0 + c)
                d1 = d1 + x * vload(L, p1 + c)
        if e < stop:
            store(dw, wo + load(edge, e), horizontal_sum(d0))
        if e + 1 < stop:
            store(dw, wo + load(edge, e + 1), horizontal_sum(d1))
        for j in range(e + 2, stop):
            d0 = splat(w.dtype.type(0))
            for c in range(lo, hi, WIDTH):
                d0 = d0 + vload(rows, own + c) * vload(L, load(source_step, j) * K + c)
            store(dw, wo + load(edge, j), horizontal_sum(d0))
        store(dbeta, no + load(node, k), load(rows, own + load(column, k)))
