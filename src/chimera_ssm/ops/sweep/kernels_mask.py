"""Mixing by masks on acyclic graphs: row t of L is β_t at t plus a weighted sum of its parents' rows; and the adjoint.

Rows of L exist only while they are read; what is made of them is ``M = Σ_d L_d ⊙ S_d`` with ``S = C Bᵀ``, for several
topologies on the same nodes: a head's M stays in the cache for all of them. Columns are counted within a part of the
topologies and padded to whole vectors.

Plans of the D topologies are stacked, each array ``[D, ·]``. Arrays: ``w [D, H, E]``, ``beta [D, H, T]``. A chunk of
heads, ``share`` for each group, is worked on at once, ``start`` is the first of them: ``M, dM [·, R, K]``,
``S [pairs, ·, R, K]`` with R padded rows and K padded columns; topology d uses pair ``which[d]``.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import WIDTH, at, clear, load, put, splat, store, total


@inlined
def weight_and_row(e, stop, edge, place, w, wo, columns, nothing):
    """Weight of edge e and offset of its source's row; zeros if there are no more edges."""
    if e < stop:
        return at(w, wo + at(edge, e)), at(place, e) * columns
    return w.dtype.type(0), nothing


@inlined
def further(x, c, e, stop, edge, place, w, wo, rows, columns):
    """Add what comes over edges e to ``stop``."""
    for k in range(e, stop):
        x = x + splat(at(w, wo + at(edge, k))) * load(rows, at(place, k) * columns + c)
    return x


@kernel
def masks_forward(
    first, last, start, share, node, row, column, begin, edge, source_slot, slot, slots, low, high, which, w, beta, S, M
):  # fmt: skip
    """Set M to ``Σ_d L_d ⊙ S_d`` for heads ``first`` to ``last`` of the chunk."""
    (D, heads, edges), nodes, (_, groups, R, K) = w.shape, node.shape[1], S.shape
    rows = np.empty((slots + 1, K), M.dtype)
    was_low, was_high = np.empty(slots, np.int64), np.empty(slots, np.int64)
    for here in range(first, last):
        mo = here * R * K
        clear(M, mo, mo + R * K)
        for d in range(D):
            wo, bo = (d * heads + start + here) * edges, (d * heads + start + here) * nodes
            so, po, eo = (at(which, d) * groups + here // share) * R * K, d * nodes, d * edge.shape[1]
            rows[:] = 0  # and zero outside the range of whoever holds a slot; the last row stays zero
            was_low[:] = 0
            was_high[:] = 0
            for k in range(po, po + nodes):
                e, stop = eo + at(begin, k + d), eo + at(begin, k + d + 1)
                own, lo, hi = at(slot, k) * K, at(low, k), at(high, k)
                s, m = so + at(row, k) * K, mo + at(row, k) * K
                clear(rows, own + at(was_low, at(slot, k)), own + lo)
                clear(rows, own + hi, own + at(was_high, at(slot, k)))
                w0, r0 = weight_and_row(e, stop, edge, source_slot, w, wo, K, slots * K)
                w1, r1 = weight_and_row(e + 1, stop, edge, source_slot, w, wo, K, slots * K)
                a0, a1 = splat(w0), splat(w1)
                if stop - e > 2:
                    for c in range(lo, hi, WIDTH):
                        x = a0 * load(rows, r0 + c) + a1 * load(rows, r1 + c)
                        x = further(x, c, e + 2, stop, edge, source_slot, w, wo, rows, K)
                        store(rows, own + c, x)
                        store(M, m + c, load(M, m + c) + x * load(S, s + c))
                else:
                    for c in range(lo, hi, WIDTH):
                        x = a0 * load(rows, r0 + c) + a1 * load(rows, r1 + c)
                        store(rows, own + c, x)
                        store(M, m + c, load(M, m + c) + x * load(S, s + c))
                diagonal, c = at(beta, bo + at(node, k)), at(column, k)
                put(rows, own + c, diagonal)
                put(M, m + c, at(M, m + c) + diagonal * at(S, s + c))
                put(was_low, at(slot, k), lo)
                put(was_high, at(slot, k), hi)


@kernel
def masks_backward(
    first, last, start, share, splits, node, row, column, begin, edge, source_step, low, high,
    back_step, back_begin, back_edge, back_source_slot, back_slot, back_slots, which,
    w, beta, S, dM, dw, dbeta, dS,
):  # fmt: skip
    """The adjoint: Ḡ = S ⊙ dM, Λ = Lᵀ Ḡ, ∂A_ij = Λ_i · L_j, ∂β_t = Λ_tt, ``dS = Σ L ⊙ dM`` over heads and topologies.

    A task is a pair of C and B and a share of a group's heads: ``dS [splits, pairs, groups, R, K]``, ``dw [D, H, E]``
    and ``dbeta [D, H, T]`` are set. L is computed again, whole, for one head at a time. ``back_…`` are the plans of the
    flipped topologies: step b works on what is step ``back_step[b]`` here, and hears from the children.
    """
    (D, heads, edges), nodes, (pairs, groups, R, K) = w.shape, node.shape[1], S.shape
    L = np.empty((nodes + 1, K), dM.dtype)
    rows = np.zeros((back_slots + 1, K), dM.dtype)  # the last row of both stays zero
    for task in range(first, last):
        group, pair, split = task // (pairs * splits), task // splits % pairs, task % splits
        to, so = ((split * pairs + pair) * groups + group) * R * K, (pair * groups + group) * R * K
        clear(dS, to, to + R * K)
        for d in range(D):
            if at(which, d) != pair:
                continue
            po, eo, bo = d * nodes, d * edge.shape[1], d * back_edge.shape[1]
            L[:] = 0  # and zero outside each row's range
            for here in range(group * share + share * split // splits, group * share + share * (split + 1) // splits):
                wo, no, mo = (d * heads + start + here) * edges, (d * heads + start + here) * nodes, here * R * K
                for i in range(nodes):
                    k, own = po + i, i * K
                    e, stop = eo + at(begin, k + d), eo + at(begin, k + d + 1)
                    s, m = to + at(row, k) * K, mo + at(row, k) * K
                    w0, r0 = weight_and_row(e, stop, edge, source_step, w, wo, K, nodes * K)
                    w1, r1 = weight_and_row(e + 1, stop, edge, source_step, w, wo, K, nodes * K)
                    a0, a1 = splat(w0), splat(w1)
                    if stop - e > 2:
                        for c in range(at(low, k), at(high, k), WIDTH):
                            x = a0 * load(L, r0 + c) + a1 * load(L, r1 + c)
                            x = further(x, c, e + 2, stop, edge, source_step, w, wo, L, K)
                            store(L, own + c, x)
                            store(dS, s + c, load(dS, s + c) + x * load(dM, m + c))
                    else:
                        for c in range(at(low, k), at(high, k), WIDTH):
                            x = a0 * load(L, r0 + c) + a1 * load(L, r1 + c)
                            store(L, own + c, x)
                            store(dS, s + c, load(dS, s + c) + x * load(dM, m + c))
                    diagonal, c = at(beta, no + at(node, k)), at(column, k)
                    put(L, own + c, diagonal)
                    put(dS, s + c, at(dS, s + c) + diagonal * at(dM, m + c))
                for b in range(po, po + nodes):
                    k = po + at(back_step, b)
                    f, end = bo + at(back_begin, b + d), bo + at(back_begin, b + d + 1)
                    own, s, m = at(back_slot, b) * K, so + at(row, k) * K, mo + at(row, k) * K
                    w0, r0 = weight_and_row(f, end, back_edge, back_source_slot, w, wo, K, back_slots * K)
                    w1, r1 = weight_and_row(f + 1, end, back_edge, back_source_slot, w, wo, K, back_slots * K)
                    a0, a1 = splat(w0), splat(w1)
                    e, stop, lo, hi = eo + at(begin, k + d), eo + at(begin, k + d + 1), at(low, k), at(high, k)
                    p0 = at(source_step, e) * K if e < stop else nodes * K
                    p1 = at(source_step, e + 1) * K if e + 1 < stop else nodes * K
                    d0 = splat(w.dtype.type(0))
                    d1 = d0
                    if end - f > 2:
                        for c in range(lo, hi, WIDTH):
                            x = load(S, s + c) * load(dM, m + c) + a0 * load(rows, r0 + c) + a1 * load(rows, r1 + c)
                            x = further(x, c, f + 2, end, back_edge, back_source_slot, w, wo, rows, K)
                            store(rows, own + c, x)
                            d0 = d0 + x * load(L, p0 + c)
                            d1 = d1 + x * load(L, p1 + c)
                    else:
                        for c in range(lo, hi, WIDTH):
                            x = load(S, s + c) * load(dM, m + c) + a0 * load(rows, r0 + c) + a1 * load(rows, r1 + c)
                            store(rows, own + c, x)
                            d0 = d0 + x * load(L, p0 + c)
                            d1 = d1 + x * load(L, p1 + c)
                    if e < stop:
                        put(dw, wo + at(edge, e), total(d0))
                    if e + 1 < stop:
                        put(dw, wo + at(edge, e + 1), total(d1))
                    for j in range(e + 2, stop):
                        d0 = splat(w.dtype.type(0))
                        for c in range(lo, hi, WIDTH):
                            d0 = d0 + load(rows, own + c) * load(L, at(source_step, j) * K + c)
                        put(dw, wo + at(edge, j), total(d0))
                    put(dbeta, no + at(node, k), at(rows, own + at(column, k)))
