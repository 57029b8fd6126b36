"""Mixing by states on acyclic graphs: ``h_t = β_t B_t v_tᵀ + Σ_{s→t} w h_s``, ``y_t = C_tᵀ h_t``, and its adjoint.

A task is one head and sixteen of its P channels; it runs through the graph once for every four of its N states, with a
block of 4 × 16 states for each node that is still to be read. Nothing of size T·N·P exists.

Arrays: ``w [H, E]``, ``beta [H, T]``, ``B, C [G, N/4, T, 4]``, ``V, Y [H, P/16, T, 16]``, with all leading dimensions in
H and G. Of the adjoint, ``dw [P/16, H, E]``, ``dbeta [P/16, H, T]``, ``dB, dC [ranges, G, N/4, T, 4]``.
"""

import numpy as np

from chimera_ssm.solvers.kernels.jit import kernel
from chimera_ssm.solvers.kernels.simd import add_totals, at, load, splat, store, total

STATES, CHANNELS = 4, 16
BLOCK = STATES * CHANNELS


@kernel
def states_forward(first, last, order, begin, edge, source_slot, slot, slots, segment, w, beta, B, C, V, Y):
    """Add the mix of one topology to Y, tasks ``first`` to ``last``."""
    (heads, edges), nodes, groups = w.shape, order.size, B.shape[0]
    blocks, parts = B.shape[1], V.shape[1]
    h = np.empty((blocks, slots, BLOCK), V.dtype)
    for task in range(first, last):
        head = task // parts
        group = head * groups // heads
        for start in range(0, nodes, segment):
            stop = min(nodes, start + segment)
            for block in range(blocks):
                here, bc, vy = block * slots * BLOCK, (group * blocks + block) * nodes * STATES, task * nodes * CHANNELS
                for k in range(start, stop):
                    t = at(order, k)
                    o, q = bc + STATES * t, vy + CHANNELS * t
                    scale, v0, v1 = at(beta, head * nodes + t), load(V, q), load(V, q + 8)
                    b0, b1 = scale * at(B, o), scale * at(B, o + 1)
                    b2, b3 = scale * at(B, o + 2), scale * at(B, o + 3)
                    h0, h1, h2, h3, h4, h5, h6, h7 = (
                        b0 * v0, b0 * v1, b1 * v0, b1 * v1, b2 * v0, b2 * v1, b3 * v0, b3 * v1,
                    )  # fmt: skip
                    for e in range(at(begin, k), at(begin, k + 1)):
                        x, s = splat(at(w, head * edges + at(edge, e))), here + BLOCK * at(source_slot, e)
                        h0, h1 = h0 + x * load(h, s), h1 + x * load(h, s + 8)
                        h2, h3 = h2 + x * load(h, s + 16), h3 + x * load(h, s + 24)
                        h4, h5 = h4 + x * load(h, s + 32), h5 + x * load(h, s + 40)
                        h6, h7 = h6 + x * load(h, s + 48), h7 + x * load(h, s + 56)
                    s = here + BLOCK * at(slot, k)
                    store(h, s, h0)
                    store(h, s + 8, h1)
                    store(h, s + 16, h2)
                    store(h, s + 24, h3)
                    store(h, s + 32, h4)
                    store(h, s + 40, h5)
                    store(h, s + 48, h6)
                    store(h, s + 56, h7)
                    c0, c1, c2, c3 = at(C, o), at(C, o + 1), at(C, o + 2), at(C, o + 3)
                    store(Y, q, load(Y, q) + c0 * h0 + c1 * h2 + c2 * h4 + c3 * h6)
                    store(Y, q + 8, load(Y, q + 8) + c0 * h1 + c1 * h3 + c2 * h5 + c3 * h7)
