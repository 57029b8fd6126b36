"""Mixing on lines, in chunks: ``h_t = a_t h_{t−1} + B_t v_tᵀ``, ``y_t = C_tᵀ h_t`` with v = β V, and its adjoint.

Within a chunk of Q nodes the mix goes through its mask, from chunk to chunk through states, all in matrix products:

    L_ij = a_{j+1} ⋯ a_i (i ≥ j)     begin_i = a_0 L_i0     end_j = L_{Q−1,j}
    y = (L ⊙ C Bᵀ) v + begin · C h    h' = begin_{Q−1} h + Bᵀ (end · v)

where h is the state before the chunk and h' the one after it. A line may be several paths: a is 0 where one begins.

A task is one head and ``width`` of its P channels. Bundles of tasks go through one chunk after the other, so that those
that share B and C find what is made of them in a cache. Arrays: ``w [H, E]``, ``beta [H, T]``, ``B, C [G, T, N]``, with
all leading dimensions in H and G; ``V, Y [Z, H/Z, T, P]`` are memory with strides of their own for all but P. Q, N and
width are multiples of 16. Matrices are as in `products`; states are ``[N, width]``.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.gemm import (
    matrix,
    multiply,
    multiply_lower,
    multiply_to_lower,
    multiply_turned_lower,
    turn,
)
from chimera_ssm.cpu.simd import WIDTH, at, clear, fma, load, put, room, splat, store, total


class Line(NamedTuple):
    """A line, and how it is worked on.

    Attributes:
        node: of each step, ``[T]``.
        edge: that enters it from the step before, −1 if none does, ``[T]``.
        heads: of an entry of Z.
        parts: of a head's channels, each a task.
        width: channels of a task.
        chunk: steps of a chunk.
        bundle: tasks that go through chunks together.
        strict: whether nodes do not hear themselves: L has zeros on its diagonal where it masks C Bᵀ.
    """

    node: np.ndarray
    edge: np.ndarray
    heads: int
    parts: int
    width: int
    chunk: int
    bundle: int
    strict: bool


@inlined
def origin_of(x, task, line):
    """Where the channels of a task begin."""
    head, strides = task // line.parts, x[1]
    return head // line.heads * strides[0] + head % line.heads * strides[1] + task % line.parts * line.width


@inlined
def rows_of(out, X, origin, stride, count, line, start, stop):
    """Numbers of the nodes of a chunk, from ``origin`` on, ``count`` of each as a row; zeros after the end."""
    for k in range(start, stop):
        for p in range(0, count, WIDTH):
            store(out[0], (k - start) * out[2] + p, load(X, origin + at(line.node, k) * stride + p))
    clear_rows(out, stop - start, line.chunk, count)


@inlined
def values_of(v, V, task, beta, line, start, stop):
    """The rows of v = β V."""
    origin, b = origin_of(V, task, line), task // line.parts * line.node.size
    for k in range(start, stop):
        t = at(line.node, k)
        factor, o = splat(at(beta, b + t)), origin + t * V[1][2]
        for p in range(0, line.width, WIDTH):
            store(v[0], (k - start) * v[2] + p, factor * load(V[0], o + p))
    clear_rows(v, stop - start, line.chunk, line.width)


@inlined
def clear_rows(x, first, last, count):
    """Zeros in some rows."""
    for i in range(first, last):
        clear(x[0], i * x[2], i * x[2] + count)


@inlined
def scale_rows(x, rows, count, factors, o):
    """Row i of x times ``factors[o + i]``."""
    for i in range(rows):
        factor = splat(at(factors, o + i))
        for p in range(i * x[2], i * x[2] + count, WIDTH):
            store(x[0], p, factor * load(x[0], p))


@inlined
def weights_of(a, w, head, line, start, stop):
    """What enters each step of a chunk; 1 after the end, so that what is handed on stays as it is."""
    for k in range(start, stop):
        e = at(line.edge, k)
        put(a, k - start, at(w, head * w.shape[1] + e) if e >= 0 else w.dtype.type(0))
    for k in range(stop - start, line.chunk):
        put(a, k, w.dtype.type(1))


@inlined
def mask_of(L, begin, a, size):
    """L of a chunk, ``L_i = a_i L_{i−1}`` and 1 on the diagonal, sixteen columns after sixteen; and ``begin``."""
    x, stride = L[0], L[2]
    unit = np.zeros(2 * WIDTH, x.dtype)
    put(unit, WIDTH, x.dtype.type(1))
    for j in range(0, size, WIDTH):
        row = splat(x.dtype.type(0))
        for i in range(j, j + WIDTH):
            row = fma(at(a, i), row, load(unit, WIDTH + j - i))
            store(x, i * stride + j, row)
        for i in range(j + WIDTH, size):
            row = at(a, i) * row
            store(x, i * stride + j, row)
    for i in range(size):
        put(begin, i, at(a, 0) * at(x, i * stride))


@kernel
def forward(first, last, fresh, line, arrays):
    """Add the mix to Y, or set Y to it if ``fresh``, for tasks ``first`` to ``last``."""
    w, beta, B, C, V, Y = arrays
    (heads, _), (groups, nodes, N), dtype = w.shape, B.shape, B.dtype
    size, width, chunks, states = line.chunk, line.width, -(-nodes // line.chunk), N * line.width
    memory = room(min(line.bundle, last - first) * states, dtype)
    b, c, bt, CB = matrix(size, N, dtype), matrix(size, N, dtype), matrix(N, size, dtype), matrix(size, size, dtype)
    L, S, v, y = (
        matrix(size, size, dtype),
        matrix(size, size, dtype),
        matrix(size, width, dtype),
        matrix(size, width, dtype),
    )
    a, begin = room(size, dtype), room(size, dtype)
    for low in range(first, last, line.bundle):
        clear(memory, 0, memory.size)
        for chunk in range(chunks):
            start, stop, group = chunk * size, min((chunk + 1) * size, nodes), -1
            for task in range(low, min(low + line.bundle, last)):
                head, h = task // line.parts, (memory, (task - low) * states, width)
                if head * groups // heads != group:
                    group = head * groups // heads
                    rows_of(b, B, group * nodes * N, N, N, line, start, stop)
                    rows_of(c, C, group * nodes * N, N, N, line, start, stop)
                    turn(bt, b, size, N)
                    multiply_to_lower(0, CB, size, c, bt, N)
                weights_of(a, w, head, line, start, stop)
                mask_of(L, begin, a, size)
                values_of(v, V, task, beta, line, start, stop)
                hear(y, begin, L, S, CB, c, h, v, N, chunk > 0, line)
                add_rows(Y[0], origin_of(Y, task, line), Y[1][2], y, width, line, start, stop, fresh)
                if chunk < chunks - 1:
                    hand_on(h, begin, L, b, v, size, width, N)


@inlined
def hear(y, begin, L, S, CB, c, h, v, N, continued, line):
    """``y = begin · C h + (L ⊙ C Bᵀ) v``, the first only if a chunk continues others."""
    size, width = line.chunk, line.width
    if continued:
        multiply(0, y, size, width, c, 1, h, N)
        scale_rows(y, size, width, begin, 0)
    for i in range(size):
        for j in range(0, i + 1, WIDTH):
            store(S[0], i * S[2] + j, load(L[0], i * L[2] + j) * load(CB[0], i * CB[2] + j))
    if line.strict:
        clear_diagonal(S, size)
    multiply_lower(1 if continued else 0, y, size, width, S, v)


@inlined
def clear_diagonal(x, size):
    """Zeros on the diagonal."""
    for i in range(size):
        put(x[0], i * x[2] + i, x[0].dtype.type(0))


@inlined
def hand_on(h, begin, L, b, v, size, width, N):
    """``h ← begin_{Q−1} h + Bᵀ (end · v)``; v is gone then."""
    scale_rows(v, size, width, L[0], (size - 1) * L[2])
    multiply(at(begin, size - 1), h, N, width, (b[0], 0, 1), b[2], v, size)


@inlined
def add_rows(Y, origin, stride, y, count, line, start, stop, fresh):
    """Rows of a chunk, ``count`` numbers of each, to where they belong."""
    for k in range(start, stop):
        for p in range(0, count, WIDTH):
            o, x = origin + at(line.node, k) * stride + p, load(y[0], (k - start) * y[2] + p)
            store(Y, o, x if fresh else x + load(Y, o))


@kernel
def backward(first, last, fresh, ranges, line, arrays, scratch):
    """The adjoint for incoming gradients G, of the shape of V.

    The states before all chunks are computed again for each bundle, into ``scratch [ranges, ·]``. With λ the gradient
    of the state after a chunk, S = L ⊙ C Bᵀ and D = G vᵀ:

        ∂v = Sᵀ G + end · B λ          ∂C = (D ⊙ L) B + begin · G hᵀ      ∂L = D ⊙ C Bᵀ
        ∂begin = Σ_n C ⊙ G hᵀ          ∂B = (D ⊙ L)ᵀ C + end · v λᵀ
        ∂end = Σ_n B ⊙ v λᵀ            λ ← begin_{Q−1} λ + Cᵀ (begin · G)

    Tasks are divided into ``ranges``, each with gradients of B and C of its own, so that their sum does not depend on
    timing: ``dw [P/width, H, E]`` and ``dbeta [P/width, H, T]`` are set, ``dB, dC [ranges, G, T, N]`` are added to, and
    so is dV unless ``fresh``.
    """
    w, beta, B, C, V, G, dw, dbeta, dB, dC, dV = arrays
    (heads, _), (groups, nodes, N), dtype = w.shape, B.shape, B.dtype
    size, width, tasks = line.chunk, line.width, heads * line.parts
    chunks, states, most = -(-nodes // size), N * width, min(line.bundle, -(-tasks // ranges))
    memory = room(most * states, dtype)
    share, own = room_to_share(size, N, dtype), room_of_own(size, width, N, dtype)
    for r in range(first, last):
        before, end = scratch[r], tasks * (r + 1) // ranges
        for low in range(tasks * r // ranges, end, line.bundle):
            recall(before, low, min(low + line.bundle, end), own, share.b, w, beta, B, V, line)
            clear(memory, 0, memory.size)
            for chunk in range(chunks - 1, -1, -1):
                start, stop, group = chunk * size, min((chunk + 1) * size, nodes), -1
                for task in range(low, min(low + line.bundle, end)):
                    head = task // line.parts
                    if head * groups // heads != group:
                        if group >= 0:
                            leave_share(share, own, dB, dC, r * groups + group, line, start, stop)
                        group = head * groups // heads
                        enter_share(share, B, C, group, line, start, stop)
                    h = before, ((task - low) * chunks + chunk) * states, width
                    carried = memory, (task - low) * states, width
                    enter_own(own, w, beta, V, G, task, line, start, stop)
                    chunk_adjoint(own, share, h, carried, chunk > 0, chunk < chunks - 1, line, N)
                    leave_own(own, beta, V, dw, dbeta, dV, task, fresh, line, start, stop)
                leave_share(share, own, dB, dC, r * groups + group, line, start, stop)


@kernel
def recall(before, low, high, own, b, w, beta, B, V, line):
    """The states of tasks ``low`` to ``high`` before each chunk but the first, ``[tasks, chunks, N, width]``."""
    (heads, _), (groups, nodes, N), size, width = w.shape, B.shape, line.chunk, line.width
    chunks, states = -(-nodes // size), N * width
    for task in range(low, high):
        clear(before, (task - low) * chunks * states, ((task - low) * chunks + 1) * states)
    for chunk in range(chunks - 1):
        start, stop, group = chunk * size, (chunk + 1) * size, -1
        for task in range(low, high):
            head, o = task // line.parts, ((task - low) * chunks + chunk) * states
            if head * groups // heads != group:
                group = head * groups // heads
                rows_of(b, B, group * nodes * N, N, N, line, start, stop)
            weights_of(own.a, w, head, line, start, stop)
            values_of(own.v, V, task, beta, line, start, stop)
            remaining = B.dtype.type(1)
            for j in range(size - 1, -1, -1):
                put(own.dend, j, remaining)
                remaining *= at(own.a, j)
            scale_rows(own.v, size, width, own.dend, 0)
            for k in range(o, o + states, WIDTH):
                store(before, k + states, remaining * load(before, k))
            multiply(1, (before, o + states, width), N, width, (b[0], 0, 1), b[2], own.v, size)


class Share(NamedTuple):
    """What the tasks of a group share: B, C, their transposes, C Bᵀ; gradients of these transposes and of C Bᵀ."""

    b: tuple
    c: tuple
    bt: tuple
    ct: tuple
    CB: tuple
    dbt: tuple
    dct: tuple
    dCB: tuple


class Own(NamedTuple):
    """What a task has for itself: vectors ``[Q]``, with da and so on their gradients, and matrices."""

    a: np.ndarray
    begin: np.ndarray
    da: np.ndarray
    dbegin: np.ndarray
    dend: np.ndarray
    v: tuple
    vt: tuple
    g: tuple
    gt: tuple
    L: tuple
    S: tuple
    D: tuple
    x: tuple
    dv: tuple
    u: tuple


@inlined
def room_to_share(size, N, dtype):
    """An empty `Share`."""
    b, c, bt, ct = matrix(size, N, dtype), matrix(size, N, dtype), matrix(N, size, dtype), matrix(N, size, dtype)
    dbt, dct = matrix(N, size, dtype), matrix(N, size, dtype)
    return Share(b, c, bt, ct, matrix(size, size, dtype), dbt, dct, matrix(size, size, dtype))


@inlined
def room_of_own(size, width, N, dtype):
    """An empty `Own`."""
    a, begin = room(size, dtype), room(size, dtype)
    da, dbegin, dend = room(size, dtype), room(size, dtype), room(size, dtype)
    v, g, dv, u = (
        matrix(size, width, dtype),
        matrix(size, width, dtype),
        matrix(size, width, dtype),
        matrix(size, width, dtype),
    )
    vt, gt, x = matrix(width, size, dtype), matrix(width, size, dtype), matrix(N, size, dtype)
    L, S, D = matrix(size, size, dtype), matrix(size, size, dtype), matrix(size, size, dtype)
    return Own(a, begin, da, dbegin, dend, v, vt, g, gt, L, S, D, x, dv, u)


@inlined
def enter_share(share, B, C, group, line, start, stop):
    """B and C of a chunk, what is made of them, and gradients of 0."""
    size, N = line.chunk, B.shape[2]
    origin = group * B.shape[1] * N
    rows_of(share.b, B, origin, N, N, line, start, stop)
    rows_of(share.c, C, origin, N, N, line, start, stop)
    turn(share.bt, share.b, size, N)
    turn(share.ct, share.c, size, N)
    multiply_to_lower(0, share.CB, size, share.c, share.bt, N)
    clear_rows(share.dbt, 0, N, size)
    clear_rows(share.dct, 0, N, size)
    clear_rows(share.dCB, 0, size, size)


@inlined
def leave_share(share, own, dB, dC, group, line, start, stop):
    """``∂C += dCB B + dctᵀ``, ``∂B += dCBᵀ C + dbtᵀ``, for which the places of c and b are used at last."""
    size, N = line.chunk, dB.shape[3]
    rows = matrix(size, N, dB.dtype)
    turn(rows, share.dct, N, size)
    multiply_lower(1, rows, size, N, share.dCB, share.b)
    add_rows(dC, group * dC.shape[2] * N, N, rows, N, line, start, stop, False)
    turn(rows, share.dbt, N, size)
    multiply_turned_lower(1, rows, size, N, share.dCB, share.c)
    add_rows(dB, group * dB.shape[2] * N, N, rows, N, line, start, stop, False)


@inlined
def enter_own(own, w, beta, V, G, task, line, start, stop):
    """Weights, mask, v and incoming gradients of a task's chunk."""
    size, width = line.chunk, line.width
    weights_of(own.a, w, task // line.parts, line, start, stop)
    mask_of(own.L, own.begin, own.a, size)
    values_of(own.v, V, task, beta, line, start, stop)
    rows_of(own.g, G[0], origin_of(G, task, line), G[1][2], width, line, start, stop)
    turn(own.vt, own.v, size, width)
    turn(own.gt, own.g, size, width)


@inlined
def chunk_adjoint(own, share, h, carried, continued, continues, line, N):
    """The equations above, with ∂L made into ∂a; a chunk may continue others, and others may continue it."""
    size, width, L = line.chunk, line.width, own.L
    clear(own.dbegin, 0, size)
    clear(own.dend, 0, size)
    if continued:
        multiply(0, own.x, N, size, h, 1, own.gt, width)
        add_inner(own.dbegin, share.dct, own.x, share.ct, own.begin, 0, N, size)
    if continues:
        multiply(0, own.x, N, size, carried, 1, own.vt, width)
        add_inner(own.dend, share.dbt, own.x, share.bt, L[0], (size - 1) * L[2], N, size)
        if continued:
            put(own.dbegin, size - 1, at(own.dbegin, size - 1) + inner(h, carried, N * width))
    multiply_to_lower(0, own.D, size, own.g, own.vt, width)
    mask_adjoint(own, share, line)
    multiply_turned_lower(0, own.dv, size, width, own.S, own.g)
    if continues:
        multiply(0, own.u, size, width, share.b, 1, carried, N)
        add_scaled_rows(own.dv, own.u, size, width, L[0], (size - 1) * L[2])
    if continued:
        scale_rows(own.g, size, width, own.begin, 0)
        multiply(at(own.begin, size - 1), carried, N, width, (share.c[0], 0, 1), share.c[2], own.g, size)


@inlined
def add_inner(dfactor, dmatrix, x, y, factor, o, N, size):
    """Add ``Σ_n y ⊙ x`` to a gradient ``[Q]``, and ``factor · x`` to one ``[N, Q]``."""
    for q in range(0, size, WIDTH):
        f, d = load(factor, o + q), load(dfactor, q)
        for n in range(N):
            z = load(x[0], n * x[2] + q)
            d = fma(load(y[0], n * y[2] + q), z, d)
            store(dmatrix[0], n * dmatrix[2] + q, fma(f, z, load(dmatrix[0], n * dmatrix[2] + q)))
        store(dfactor, q, d)


@inlined
def inner(x, y, size):
    """``Σ x y`` of states."""
    s0 = s1 = splat(x[0].dtype.type(0))
    for k in range(0, size, 2 * WIDTH):
        s0 = fma(load(x[0], x[1] + k), load(y[0], y[1] + k), s0)
        s1 = fma(load(x[0], x[1] + k + WIDTH), load(y[0], y[1] + k + WIDTH), s1)
    return total(s0 + s1)


@inlined
def add_scaled_rows(x, y, rows, count, factors, o):
    """Add row i of y times ``factors[o + i]`` to that of x."""
    for i in range(rows):
        factor = splat(at(factors, o + i))
        for p in range(0, count, WIDTH):
            store(x[0], i * x[2] + p, fma(factor, load(y[0], i * y[2] + p), load(x[0], i * x[2] + p)))


@inlined
def mask_adjoint(own, share, line):
    """S = L ⊙ C Bᵀ, ``∂(C Bᵀ) += D ⊙ L``, and through ``∂L`` the gradients of a: ``Λ_i = ∂L_i + a_{i+1} Λ_{i+1}``."""
    (D, _, ds), (L, _, ls), S, CB, dCB, size = own.D, own.L, own.S, share.CB, share.dCB, line.chunk
    if line.strict:
        clear_diagonal(own.D, size)
    for i in range(size):
        for j in range(0, i + 1, WIDTH):
            d, x, s, o = load(D, i * ds + j), load(L, i * ls + j), load(CB[0], i * CB[2] + j), i * dCB[2] + j
            store(S[0], i * S[2] + j, x * s)
            store(dCB[0], o, fma(d, x, load(dCB[0], o)))
            store(D, i * ds + j, d * s)
    if line.strict:
        clear_diagonal(S, size)
    first = at(own.dbegin, 0) * at(L, 0)
    for i in range(size):
        put(D, i * ds, at(D, i * ds) + at(own.a, 0) * at(own.dbegin, i))
        first += at(own.dbegin, i) * at(L, i * ls) if i > 0 else 0
    put(own.da, 0, first)
    for j in range(0, size, WIDTH):
        store(D, (size - 1) * ds + j, load(D, (size - 1) * ds + j) + load(own.dend, j))
    for i in range(size - 1, 0, -1):
        factor, d = splat(at(own.a, i)), splat(D.dtype.type(0))
        for j in range(0, i, WIDTH):
            x, o = load(D, i * ds + j), (i - 1) * ds + j
            d = fma(x, load(L, (i - 1) * ls + j), d)
            store(D, o, fma(factor, x, load(D, o)))
        put(own.da, i, total(d))


@inlined
def leave_own(own, beta, V, dw, dbeta, dV, task, fresh, line, start, stop):
    """Gradients of a task's chunk to where they belong; those of V are added to others, or the first if ``fresh``."""
    heads, nodes, head = beta.shape[0], line.node.size, task // line.parts
    row = task % line.parts * heads + head
    vo, do = origin_of(V, task, line), origin_of(dV, task, line)
    for k in range(start, stop):
        t, i, e = at(line.node, k), k - start, at(line.edge, k)
        x, y, factor = vo + t * V[1][2], do + t * dV[1][2], splat(at(beta, head * nodes + t))
        d = splat(beta.dtype.type(0))
        for p in range(0, line.width, WIDTH):
            dv = load(own.dv[0], i * own.dv[2] + p)
            d = fma(dv, load(V[0], x + p), d)
            store(dV[0], y + p, factor * dv if fresh else fma(factor, dv, load(dV[0], y + p)))
        put(dbeta, row * nodes + t, total(d))
        if e >= 0:
            put(dw, row * dw.shape[2] + e, at(own.da, i))
