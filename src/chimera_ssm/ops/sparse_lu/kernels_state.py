"""Mixing by states on general graphs: ``h = (I − A)⁻¹ (B ⊗ v)``, ``y_t = C_tᵀ h_t``, by sparse LU, and its adjoint.

A task is one head and sixteen of its P channels. For every four of its N states it goes up the elimination tree and
down again, with a block of 4 × 16 states for each node of one part of a union. Nothing of size T·N·P exists.

Arrays, with all leading dimensions in H heads and G groups and nodes by their ranks: ``b, c [G, N/4, T, 4]`` and
``v, y [H, P/16, T, 16]``; factors as in `lu`.
"""

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.simd import aligned_empty, clear, horizontal_sum, load, store, vload, vstore
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
    times,
    write,
)


@kernel
def states_forward(first, last, plan, lower, upper, inverse, b, c, v, y):
    """Add the mix to ``y`` for tasks ``first`` to ``last``."""
    (groups, blocks, nodes, _), (heads, parts) = b.shape, v.shape[:2]
    h = aligned_empty(plan.largest * BLOCK, v.dtype)
    for task in range(first, last):
        head, vo = task // parts, task * nodes * CHANNELS
        for p in range(plan.part.size - 1):
            begin, end = plan.part[p], plan.part[p + 1]
            for block in range(blocks):
                bo = (head * groups // heads * blocks + block) * nodes * STATES
                solve_block(h, begin, end, plan, lower, upper, inverse, head, b, bo, v, vo)
                for i in range(begin, end):
                    o = vo + CHANNELS * i
                    vstore(y, o, inner(vload(y, o), c, bo + STATES * i, read(h, BLOCK * (i - begin))))


@kernel
def states_backward(first, last, ranges, plan, factors, inverse, b, c, v, g, dweight, db, dc, dv):
    """The adjoint for incoming gradients ``g``, of the shape of v: ``λ = (I − A)⁻ᵀ (C ⊗ g)``.

    ``∂A_ij = ⟨λ_i, h_j⟩`` on edges, ``∂B_t = λ_t v_t``, ``∂v_t = λ_tᵀ B_t``, ``∂C_t = h_t g_t``. ``factors`` are −L,
    −U, −Uᵀ, −Lᵀ, row by row. Tasks are divided into ``ranges``, each with separate gradients of B and C, so that
    their sum does not depend on timing: ``dweight [P/16, H, E]`` is set, ``db, dc [ranges, G, N/4, T, 4]`` and dv are
    added to.
    """
    (groups, blocks, nodes, _), (heads, parts), edges = b.shape, v.shape[:2], dweight.shape[2]
    lower, upper, upper_t, lower_t = factors
    h, adjoint = aligned_empty(plan.largest * BLOCK, v.dtype), aligned_empty(plan.largest * BLOCK, v.dtype)
    lanes = aligned_empty(edges * CHANNELS, v.dtype)
    for r in range(first, last):
        for task in range(heads * parts * r // ranges, heads * parts * (r + 1) // ranges):
            head, vo = task // parts, task * nodes * CHANNELS
            group = head * groups // heads
            clear(lanes, 0, lanes.size)
            for p in range(plan.part.size - 1):
                begin, end = plan.part[p], plan.part[p + 1]
                for block in range(blocks):
                    bo = (group * blocks + block) * nodes * STATES
                    to = r * groups * blocks * nodes * STATES + bo
                    solve_block(h, begin, end, plan, lower, upper, inverse, head, b, bo, v, vo)
                    solve_block(adjoint, begin, end, plan, upper_t, lower_t, inverse, head, c, bo, g, vo)
                    gather(h, adjoint, begin, end, plan, b, bo, v, g, vo, db, dc, to, dv, lanes)
            for e in range(edges):
                store(
                    dweight,
                    (task % parts * heads + head) * edges + load(plan.edge, e),
                    horizontal_sum(vload(lanes, CHANNELS * e)),
                )


@inlined
def solve_block(x, begin, end, plan, ahead, back, inverse, head, b, bo, v, vo):
    """``x = (I − A)⁻¹ (b ⊗ v)`` for a block of states of ranks ``begin`` to ``end``; the transpose by its factors."""
    fo, io = head * ahead.shape[1], head * inverse.shape[1]
    for i in range(begin, end):
        s = outer(b, bo + STATES * i, vload(v, vo + CHANNELS * i))
        for q in range(load(plan.lower_begin, i), load(plan.lower_begin, i + 1)):
            s = plus(s, load(ahead, fo + q), read(x, BLOCK * (load(plan.lower_column, q) - begin)))
        write(x, BLOCK * (i - begin), s)
    for i in range(end - 1, begin - 1, -1):
        s = times(load(inverse, io + i), read(x, BLOCK * (i - begin)))
        for q in range(load(plan.upper_begin, i), load(plan.upper_begin, i + 1)):
            s = plus(s, load(back, fo + q), read(x, BLOCK * (load(plan.upper_column, q) - begin)))
        write(x, BLOCK * (i - begin), s)


@inlined
def gather(h, adjoint, begin, end, plan, b, bo, v, g, vo, db, dc, to, dv, lanes):
    """What a block of states and its adjoint make of all gradients; those of edges lane by lane."""
    for i in range(begin, end):
        o, q, x = bo + STATES * i, vo + CHANNELS * i, read(adjoint, BLOCK * (i - begin))
        vstore(dv, q, inner(vload(dv, q), b, o, x))
        add_products(db, to + STATES * i, x, vload(v, q))
        add_products(dc, to + STATES * i, read(h, BLOCK * (i - begin)), vload(g, q))
        for e in range(load(plan.edge_begin, i), load(plan.edge_begin, i + 1)):
            add_lanes(lanes, CHANNELS * e, x, read(h, BLOCK * (load(plan.edge_column, e) - begin)))
