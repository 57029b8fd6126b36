"""Factors of undirected paths: ``L_ij`` is θ_j times a product of f⁺ from j up to i, or of f⁻ from i up to j.

The equations are those of `chimera_ssm.ops.tridiagonal.solver`; pivots and all that is made of them are in float64.
Arrays: ``w [H, E]``, ``theta [H, T]``, ``fore, aft [H, T − 1]``, their gradients alike; ``ahead, back [T]`` are the
edges that enter each place, E where there is none.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import at, put


@inlined
def read_links(w, origin, ahead, back, a, b):
    """Weights of each link, ``a_i = A[i, i+1]`` and ``b_i = A[i+1, i]``."""
    edges = w.shape[1]
    for i in range(a.size):
        up, down = at(ahead, i + 1), at(back, i)
        put(b, i, np.float64(at(w, origin + up)) if up < edges else 0.0)
        put(a, i, np.float64(at(w, origin + down)) if down < edges else 0.0)


@inlined
def find_pivots(a, b, up, down):
    """``d⁺_{i+1} = 1 − a_i b_i/d⁺_i`` from one end, ``d⁻_i = 1 − a_i b_i/d⁻_{i+1}`` from the other, side by side.

    The largest magnitude of either is returned: NaN if there is one, because all that follow are NaN, too.
    """
    links, largest_up, largest_down = a.size, 1.0, 1.0
    put(up, 0, 1.0)
    put(down, links, 1.0)
    for i in range(links):
        j = links - 1 - i
        u, d = 1 - at(a, i) * at(b, i) / at(up, i), 1 - at(a, j) * at(b, j) / at(down, j + 1)
        put(up, i + 1, u)
        put(down, j, d)
        if not abs(u) <= largest_up:
            largest_up = abs(u)
        if not abs(d) <= largest_down:
            largest_down = abs(d)
    return largest_up if largest_up > largest_down or largest_up != largest_up else largest_down


@kernel
def factors(first, last, ahead, back, w, theta, fore, aft, growth):
    """Set θ, f⁺, f⁻ and ``growth [H]``, the largest pivot, for heads ``first`` to ``last``."""
    nodes, links, edges = theta.shape[1], fore.shape[1], w.shape[1]
    a, b, up, down = np.empty(links), np.empty(links), np.empty(nodes), np.empty(nodes)
    for head in range(first, last):
        read_links(w, head * edges, ahead, back, a, b)
        put(growth, head, find_pivots(a, b, up, down))
        for i in range(nodes):
            put(theta, head * nodes + i, theta.dtype.type(1 / (at(up, i) + at(down, i) - 1)))
        for i in range(links):
            put(fore, head * links + i, fore.dtype.type(at(b, i) / at(down, i + 1)))
            put(aft, head * links + i, aft.dtype.type(at(a, i) / at(up, i)))


@kernel
def factors_adjoint(first, last, ahead, back, w, gtheta, gfore, gaft, dw):
    """Set ``dw`` on all edges of these heads; pivots are computed again."""
    nodes, links, edges = gtheta.shape[1], gfore.shape[1], w.shape[1]
    a, b, up, down = np.empty(links), np.empty(links), np.empty(nodes), np.empty(nodes)
    gup, gdown, gp = np.empty(nodes), np.empty(nodes), np.empty(links)
    for head in range(first, last):
        to, lo, wo = head * nodes, head * links, head * edges
        read_links(w, wo, ahead, back, a, b)
        find_pivots(a, b, up, down)
        for i in range(nodes):
            theta = 1 / (at(up, i) + at(down, i) - 1)
            put(gup, i, -theta * theta * at(gtheta, to + i))
            put(gdown, i, -theta * theta * at(gtheta, to + i))
        for i in range(links):
            put(gup, i, at(gup, i) - at(gaft, lo + i) * at(a, i) / at(up, i) ** 2)
            put(gdown, i + 1, at(gdown, i + 1) - at(gfore, lo + i) * at(b, i) / at(down, i + 1) ** 2)
        for i in range(links - 1, -1, -1):
            put(gp, i, -at(gup, i + 1) / at(up, i))
            put(gup, i, at(gup, i) - at(gp, i) * at(a, i) * at(b, i) / at(up, i))
        for i in range(links):
            more = at(gdown, i) / at(down, i + 1)
            put(gp, i, at(gp, i) - more)
            put(gdown, i + 1, at(gdown, i + 1) + more * at(a, i) * at(b, i) / at(down, i + 1))
        for i in range(links):
            up_edge, down_edge = at(ahead, i + 1), at(back, i)
            if up_edge < edges:
                put(dw, wo + up_edge, dw.dtype.type(at(gfore, lo + i) / at(down, i + 1) + at(a, i) * at(gp, i)))
            if down_edge < edges:
                put(dw, wo + down_edge, dw.dtype.type(at(gaft, lo + i) / at(up, i) + at(b, i) * at(gp, i)))
