"""Factors of undirected paths: ``L_ij`` is θ_j times a product of f⁺ from j up to i, or of f⁻ from i up to j.

The equations are those of `chimera_ssm.ops.tridiagonal.solver`; pivots and all that is made of them are in float64.
Arrays: ``w [H, E]``, ``theta [H, T]``, ``fore, aft [H, T − 1]``, their gradients alike; ``ahead, back [T]`` are the
edges that enter each place, E where there is none.
"""

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import load, store


@inlined
def read_links(w, origin, ahead, back, a, b):
    """Weights of each link, ``a_i = A[i, i+1]`` and ``b_i = A[i+1, i]``."""
    edges = w.shape[1]
    for i in range(a.size):
        up, down = load(ahead, i + 1), load(back, i)
        store(b, i, np.float64(load(w, origin + up)) if up < edges else 0.0)
        store(a, i, np.float64(load(w, origin + down)) if down < edges else 0.0)


@inlined
def find_pivots(a, b, up, down):
    """``d⁺_{i+1} = 1 − a_i b_i/d⁺_i`` from one end, ``d⁻_i = 1 − a_i b_i/d⁻_{i+1}`` from the other, side by side.

    The largest magnitude of either is returned: NaN if there is one, because all that follow are NaN, too.
    """
    links, largest_up, largest_down = a.size, 1.0, 1.0
    store(up, 0, 1.0)
    store(down, links, 1.0)
    for i in range(links):
        j = links - 1 - i
        u, d = 1 - load(a, i) * load(b, i) / load(up, i), 1 - load(a, j) * load(b, j) / load(down, j + 1)
        store(up, i + 1, u)
        store(down, j, d)
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
        store(growth, head, find_pivots(a, b, up, down))
        for i in range(nodes):
            store(theta, head * nodes + i, theta.dtype.type(1 / (load(up, i) + load(down, i) - 1)))
        for i in range(links):
            store(fore, head * links + i, fore.dtype.type(load(b, i) / load(down, i + 1)))
            store(aft, head * links + i, aft.dtype.type(load(a, i) / load(up, i)))


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
            theta = 1 / (load(up, i) + load(down, i) - 1)
            store(gup, i, -theta * theta * load(gtheta, to + i))
            store(gdown, i, -theta * theta * load(gtheta, to + i))
        for i in range(links):
            store(gup, i, load(gup, i) - load(gaft, lo + i) * load(a, i) / load(up, i) ** 2)
            store(gdown, i + 1, load(gdown, i + 1) - load(gfore, lo + i) * load(b, i) / load(down, i + 1) ** 2)
        for i in range(links - 1, -1, -1):
            store(gp, i, -load(gup, i + 1) / load(up, i))
            store(gup, i, load(gup, i) - load(gp, i) * load(a, i) * load(b, i) / load(up, i))
        for i in range(links):
            more = load(gdown, i) / load(down, i + 1)
            store(gp, i, load(gp, i) - more)
            store(gdown, i + 1, load(gdown, i + 1) + more * load(a, i) * load(b, i) / load(down, i + 1))
        for i in range(links):
            up_edge, down_edge = load(ahead, i + 1), load(back, i)
            if up_edge < edges:
                store(
                    dw, wo + up_edge, dw.dtype.type(load(gfore, lo + i) / load(down, i + 1) + load(a, i) * load(gp, i))
                )
            if down_edge < edges:
                store(dw, wo + down_edge, dw.dtype.type(load(gaft, lo + i) / load(up, i) + load(b, i) * load(gp, i)))
