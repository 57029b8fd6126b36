"""Mixing by masks on acyclic graphs: row t of L is β_t at t plus a weighted sum of its parents' rows; and the adjoint.

Rows of L exist only while they are read; what is made of them is ``M += L ⊙ S`` with ``S = C Bᵀ``. Columns are counted
within a part of the topology and padded to whole vectors.

Arrays: ``w [H, E]``, ``beta [H, T]``, ``M, dM [H, R, K]``, ``S [G, R, K]`` with R padded rows and K padded columns.
"""

import numpy as np

from chimera_ssm.solvers.kernels.jit import inlined, kernel
from chimera_ssm.solvers.kernels.simd import at, load, put, splat, store, total


@inlined
def source_pair(k, begin, edge, place, w, wo, columns, nothing):
    """Weights and rows of the first two edges into step k; rows of zeros where there are fewer."""
    zero = w.dtype.type(0)
    first, count = at(begin, k), at(begin, k + 1) - at(begin, k)
    w0, r0, w1, r1 = zero, nothing, zero, nothing
    if count > 0:
        w0, r0 = at(w, wo + at(edge, first)), at(place, first) * columns
    if count > 1:
        w1, r1 = at(w, wo + at(edge, first + 1)), at(place, first + 1) * columns
    return w0, r0, w1, r1


@inlined
def further(x, c, k, begin, edge, place, w, wo, rows, columns):
    """Add what comes over the third and later edges into step k."""
    for e in range(at(begin, k) + 2, at(begin, k + 1)):
        x = x + splat(at(w, wo + at(edge, e))) * load(rows, at(place, e) * columns + c)
    return x


@kernel
def masks_forward(
    first, last, node, row, column, begin, edge, source_slot, slot, slots, low, high, which, w, beta, S, M
):  # fmt: skip
    """Set M to ``Σ_d L_d ⊙ S_d`` for heads ``first`` to ``last``: a head's M stays in the cache for all topologies.

    Plans of the topologies are stacked, ``[D, …]``, and so are ``w [D, H, E]``, ``beta [D, H, T]``; topology d uses
    ``S[which[d]]`` of ``S [·, G, R, K]``.
    """
    (D, heads, edges), nodes, (_, groups, R, K) = w.shape, node.shape[1], S.shape
    rows = np.empty((slots + 1, K), M.dtype)
    was_low, was_high = np.empty(slots, np.int64), np.empty(slots, np.int64)
    for head in range(first, last):
        M[head] = 0
        for d in range(D):
            wo, bo, mo = (d * heads + head) * edges, (d * heads + head) * nodes, head * R * K
            so, po, eo = (at(which, d) * groups + head * groups // heads) * R * K, d * nodes, d * edge.shape[1]
            rows[:] = 0  # and zero outside the range of whoever holds a slot; the last row stays zero
            was_low[:] = 0
            was_high[:] = 0
            for i in range(nodes):
                k, e0 = po + i, eo + at(begin, po + d + i)
                count = eo + at(begin, po + d + i + 1) - e0
                own, lo, hi = at(slot, k) * K, at(low, k), at(high, k)
                s, m = so + at(row, k) * K, mo + at(row, k) * K
                for c in range(at(was_low, at(slot, k)), lo, 8):
                    store(rows, own + c, load(rows, slots * K))
                for c in range(hi, at(was_high, at(slot, k)), 8):
                    store(rows, own + c, load(rows, slots * K))
                r0 = at(source_slot, e0) * K if count > 0 else slots * K
                r1 = at(source_slot, e0 + 1) * K if count > 1 else slots * K
                a0 = splat(at(w, wo + at(edge, e0)) if count > 0 else w.dtype.type(0))
                a1 = splat(at(w, wo + at(edge, e0 + 1)) if count > 1 else w.dtype.type(0))
                if count > 2:
                    for c in range(lo, hi, 8):
                        x = a0 * load(rows, r0 + c) + a1 * load(rows, r1 + c)
                        for e in range(e0 + 2, e0 + count):
                            x = x + splat(at(w, wo + at(edge, e))) * load(rows, at(source_slot, e) * K + c)
                        store(rows, own + c, x)
                        store(M, m + c, load(M, m + c) + x * load(S, s + c))
                else:
                    for c in range(lo, hi, 8):
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
    first, last, splits, node, row, column, begin, edge, source_step, low, high,
    back_step, back_begin, back_edge, back_slot_of_source, back_slot, back_slots,
    w, beta, S, dM, dw, dbeta, dS,
):  # fmt: skip
    """The adjoint: Ḡ = S ⊙ dM, Λ = Lᵀ Ḡ, ∂A_ij = Λ_i · L_j, ∂β_t = Λ_tt, ``dS = Σ_heads L ⊙ dM``.

    A task is a share of a group's heads: ``dS [splits, G, R, K]`` is added to, ``dw [H, E]`` and ``dbeta [H, T]`` are
    set. L is computed again, whole, for one head at a time. ``back_…`` is the plan of the flipped topology: its step b
    works on what is step ``back_step[b]`` here, and hears from the children.
    """
    (heads, edges), nodes, (groups, R, K) = w.shape, node.size, S.shape
    share = heads // groups
    L = np.zeros((nodes + 1, K), dM.dtype)  # the last row stays zero
    rows = np.zeros((back_slots + 1, K), dM.dtype)
    for task in range(first, last):
        group, split = task // splits, task % splits
        so, to = group * R * K, (split * groups + group) * R * K
        for head in range(group * share + share * split // splits, group * share + share * (split + 1) // splits):
            wo, mo = head * edges, head * R * K
            for k in range(nodes):
                w0, r0, w1, r1 = source_pair(k, begin, edge, source_step, w, wo, K, nodes * K)
                many = at(begin, k + 1) - at(begin, k) > 2
                own, s, m = k * K, to + at(row, k) * K, mo + at(row, k) * K
                if many:
                    for c in range(at(low, k), at(high, k), 8):
                        x = w0 * load(L, r0 + c) + w1 * load(L, r1 + c)
                        x = further(x, c, k, begin, edge, source_step, w, wo, L, K)
                        store(L, own + c, x)
                        store(dS, s + c, load(dS, s + c) + x * load(dM, m + c))
                else:
                    a0, a1 = splat(w0), splat(w1)
                    for c in range(at(low, k), at(high, k), 8):
                        x = a0 * load(L, r0 + c) + a1 * load(L, r1 + c)
                        store(L, own + c, x)
                        store(dS, s + c, load(dS, s + c) + x * load(dM, m + c))
                diagonal, c = at(beta, head * nodes + at(node, k)), at(column, k)
                put(L, own + c, diagonal)
                put(dS, s + c, at(dS, s + c) + diagonal * at(dM, m + c))
            for b in range(nodes):
                k = at(back_step, b)
                w0, r0, w1, r1 = source_pair(b, back_begin, back_edge, back_slot_of_source, w, wo, K, back_slots * K)
                many = at(back_begin, b + 1) - at(back_begin, b) > 2
                own, s, m = at(back_slot, b) * K, so + at(row, k) * K, mo + at(row, k) * K
                lo, hi, parents = at(low, k), at(high, k), at(begin, k + 1) - at(begin, k)
                p0 = at(source_step, at(begin, k)) * K if parents > 0 else nodes * K
                p1 = at(source_step, at(begin, k) + 1) * K if parents > 1 else nodes * K
                d0 = load(L, nodes * K)
                d1 = d0
                if many:
                    for c in range(lo, hi, 8):
                        x = load(S, s + c) * load(dM, m + c) + w0 * load(rows, r0 + c) + w1 * load(rows, r1 + c)
                        x = further(x, c, b, back_begin, back_edge, back_slot_of_source, w, wo, rows, K)
                        store(rows, own + c, x)
                        d0 = d0 + x * load(L, p0 + c)
                        d1 = d1 + x * load(L, p1 + c)
                else:
                    a0, a1 = splat(w0), splat(w1)
                    for c in range(lo, hi, 8):
                        x = load(S, s + c) * load(dM, m + c) + a0 * load(rows, r0 + c) + a1 * load(rows, r1 + c)
                        store(rows, own + c, x)
                        d0 = d0 + x * load(L, p0 + c)
                        d1 = d1 + x * load(L, p1 + c)
                if parents > 0:
                    put(dw, wo + at(edge, at(begin, k)), total(d0))
                if parents > 1:
                    put(dw, wo + at(edge, at(begin, k) + 1), total(d1))
                for e in range(at(begin, k) + 2, at(begin, k + 1)):
                    d0 = load(L, nodes * K)
                    for c in range(lo, hi, 8):
                        d0 = d0 + load(rows, own + c) * load(L, at(source_step, e) * K + c)
                    put(dw, wo + at(edge, e), total(d0))
                put(dbeta, head * nodes + at(node, k), at(rows, own + at(column, k)))
