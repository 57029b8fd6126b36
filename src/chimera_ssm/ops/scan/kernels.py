"""Mixing on lines, in chunks: ``h_t = a_t h_{t−1} + B_t v_tᵀ``, ``y_t = C_tᵀ h_t`` with v = β V, and its adjoint.

Within a chunk of Q nodes the mix goes through its mask, from chunk to chunk through states, all in matrix products:

    L_ij = a_{j+1} ⋯ a_i (i ≥ j)     begin_i = a_0 L_i0     end_j = L_{Q−1,j}
    y = (L ⊙ C Bᵀ) v + begin · C h    h' = begin_{Q−1} h + Bᵀ (end · v)

where h is the state before the chunk and h' the one after it. A line may be several paths: a is 0 where one begins.
If states enter and leave the paths, chunks end where paths end; h is the state that enters before the first chunk of a
path, with a = 1 there, and h' after its last one is the state that leaves.

A task is one head and ``width`` of its P channels. Bundles of tasks go through one chunk after the other, so that tasks
that share B and C find their products in a cache. Arrays: ``w [H, E]``, ``beta [H, T]``, ``B, C [G, T, N]``, with
all leading dimensions in H and G; ``V, Y [Z, H/Z, T, P]`` are memory with strides for all dimensions but P. Q, N and
width are multiples of 16. Matrices are as in `products`; states are ``[N, width]``, those that enter and leave
``[H, paths, N, P]``.
"""

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import inlined, kernel
from chimera_ssm.cpu.gemm import (
    matrix,
    multiply,
    multiply_lower,
    multiply_lower_transposed,
    multiply_to_lower,
    transpose,
)
from chimera_ssm.cpu.simd import WIDTH, aligned_empty, clear, fma, horizontal_sum, load, splat, store, vload, vstore


class Line(NamedTuple):
    """A line, and how it is divided.

    Attributes:
        node: of each step, ``[T]``.
        edge: that enters it from the step before, −1 if none does, ``[T]``.
        heads: of an entry of Z.
        parts: of a head's channels, each a task.
        width: channels of a task.
        chunk: steps of a chunk.
        bundle: tasks that go through chunks together.
        bounds: first step of each chunk, and the number of steps.
        path: of each chunk; if no states enter and leave, all paths are one.
        with_states: whether states enter and leave.
        exclude_diagonal: whether L has zeros on its diagonal where it masks C Bᵀ.
    """

    node: np.ndarray
    edge: np.ndarray
    heads: int
    parts: int
    width: int
    chunk: int
    bundle: int
    bounds: np.ndarray
    path: np.ndarray
    with_states: bool
    exclude_diagonal: bool


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
            vstore(out[0], (k - start) * out[2] + p, vload(X, origin + load(line.node, k) * stride + p))
    clear_rows(out, stop - start, line.chunk, count)


@inlined
def values_of(v, V, task, beta, line, start, stop):
    """The rows of v = β V."""
    origin, b = origin_of(V, task, line), task // line.parts * line.node.size
    for k in range(start, stop):
        t = load(line.node, k)
        factor, o = splat(load(beta, b + t)), origin + t * V[1][2]
        for p in range(0, line.width, WIDTH):
            vstore(v[0], (k - start) * v[2] + p, factor * vload(V[0], o + p))
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
        factor = splat(load(factors, o + i))
        for p in range(i * x[2], i * x[2] + count, WIDTH):
            vstore(x[0], p, factor * vload(x[0], p))


@inlined
def weights_of(a, w, head, line, start, stop):
    """The weight into each step of a chunk; 1 after the end, so that the state does not change there."""
    enter = w.dtype.type(1 if line.with_states else 0)
    for k in range(start, stop):
        e = load(line.edge, k)
        store(a, k - start, load(w, head * w.shape[1] + e) if e >= 0 else enter)
    for k in range(stop - start, line.chunk):
        store(a, k, w.dtype.type(1))


@inlined
def mask_of(L, begin, a, size):
    """L of a chunk, ``L_i = a_i L_{i−1}`` and 1 on the diagonal, sixteen columns after sixteen; and ``begin``."""
    x, stride = L[0], L[2]
    unit = np.zeros(2 * WIDTH, x.dtype)
    store(unit, WIDTH, x.dtype.type(1))
    for j in range(0, size, WIDTH):
        row = splat(x.dtype.type(0))
        for i in range(j, j + WIDTH):
            row = fma(load(a, i), row, vload(unit, WIDTH + j - i))
            vstore(x, i * stride + j, row)
        for i in range(j + WIDTH, size):
            row = load(a, i) * row
            vstore(x, i * stride + j, row)
    for i in range(size):
        store(begin, i, load(a, 0) * load(x, i * stride))


@inlined
def begins_path(line, chunk):
    """Whether a chunk is the first of its path."""
    return chunk == 0 or load(line.path, chunk) != load(line.path, chunk - 1)


@inlined
def ends_path(line, chunk):
    """Whether a chunk is the last of its path."""
    return chunk == line.path.size - 1 or load(line.path, chunk) != load(line.path, chunk + 1)


@inlined
def state_origin(X, task, chunk, line):
    """Where the state of a task begins in X, of the path of a chunk."""
    row = task // line.parts * X.shape[1] + load(line.path, chunk)
    return row * X.shape[2] * X.shape[3] + task % line.parts * line.width


@inlined
def load_state(h, o, X, task, chunk, line):
    """Copy a state of X to ``h[o:]``."""
    origin = state_origin(X, task, chunk, line)
    for n in range(X.shape[2]):
        for p in range(0, line.width, WIDTH):
            vstore(h, o + n * line.width + p, vload(X, origin + n * X.shape[3] + p))


@inlined
def store_state(X, h, o, task, chunk, line):
    """The reverse."""
    origin = state_origin(X, task, chunk, line)
    for n in range(X.shape[2]):
        for p in range(0, line.width, WIDTH):
            vstore(X, origin + n * X.shape[3] + p, vload(h, o + n * line.width + p))


@kernel
def forward(first, last, fresh, line, arrays, ends):
    """Add the mix to Y, or set Y to it if ``fresh``, for tasks ``first`` to ``last``; ``ends``: entering, leaving."""
    w, beta, B, C, V, Y = arrays
    (heads, _), (groups, nodes, N), dtype = w.shape, B.shape, B.dtype
    size, width, chunks, states = line.chunk, line.width, line.path.size, N * line.width
    memory = aligned_empty(min(line.bundle, last - first) * states, dtype)
    b, c, bt, CB = matrix(size, N, dtype), matrix(size, N, dtype), matrix(N, size, dtype), matrix(size, size, dtype)
    L, S, v, y = (
        matrix(size, size, dtype),
        matrix(size, size, dtype),
        matrix(size, width, dtype),
        matrix(size, width, dtype),
    )
    a, begin = aligned_empty(size, dtype), aligned_empty(size, dtype)
    for low in range(first, last, line.bundle):
        clear(memory, 0, memory.size)
        for chunk in range(chunks):
            start, stop, group = load(line.bounds, chunk), load(line.bounds, chunk + 1), -1
            for task in range(low, min(low + line.bundle, last)):
                head, h = task // line.parts, (memory, (task - low) * states, width)
                if head * groups // heads != group:
                    group = head * groups // heads
                    rows_of(b, B, group * nodes * N, N, N, line, start, stop)
                    rows_of(c, C, group * nodes * N, N, N, line, start, stop)
                    transpose(bt, b, size, N)
                    multiply_to_lower(0, CB, size, c, bt, N)
                weights_of(a, w, head, line, start, stop)
                mask_of(L, begin, a, size)
                values_of(v, V, task, beta, line, start, stop)
                if line.with_states and begins_path(line, chunk):
                    load_state(memory, h[1], ends[0], task, chunk, line)
                chunk_output(y, begin, L, S, CB, c, h, v, N, line.with_states or chunk > 0, line)
                add_rows(Y[0], origin_of(Y, task, line), Y[1][2], y, width, line, start, stop, fresh)
                if line.with_states or chunk < chunks - 1:
                    update_state(h, begin, L, b, v, size, width, N)
                if line.with_states and ends_path(line, chunk):
                    store_state(ends[1], memory, h[1], task, chunk, line)


@inlined
def chunk_output(y, begin, L, S, CB, c, h, v, N, continued, line):
    """``y = begin · C h + (L ⊙ C Bᵀ) v``, the first only if a chunk continues others."""
    size, width = line.chunk, line.width
    if continued:
        multiply(0, y, size, width, c, 1, h, N)
        scale_rows(y, size, width, begin, 0)
    for i in range(size):
        for j in range(0, i + 1, WIDTH):
            vstore(S[0], i * S[2] + j, vload(L[0], i * L[2] + j) * vload(CB[0], i * CB[2] + j))
    if line.exclude_diagonal:
        clear_diagonal(S, size)
    multiply_lower(1 if continued else 0, y, size, width, S, v)


@inlined
def clear_diagonal(x, size):
    """Zeros on the diagonal."""
    for i in range(size):
        store(x[0], i * x[2] + i, x[0].dtype.type(0))


@inlined
def update_state(h, begin, L, b, v, size, width, N):
    """``h ← begin_{Q−1} h + Bᵀ (end · v)``; overwrites v."""
    scale_rows(v, size, width, L[0], (size - 1) * L[2])
    multiply(load(begin, size - 1), h, N, width, (b[0], 0, 1), b[2], v, size)


@inlined
def add_rows(Y, origin, stride, y, count, line, start, stop, fresh):
    """Add rows of a chunk, ``count`` numbers of each, to those of their nodes, or set these if ``fresh``."""
    for k in range(start, stop):
        for p in range(0, count, WIDTH):
            o, x = origin + load(line.node, k) * stride + p, vload(y[0], (k - start) * y[2] + p)
            vstore(Y, o, x if fresh else x + vload(Y, o))


@kernel
def backward(first, last, fresh, ranges, line, arrays, ends, scratch):
    """The adjoint for incoming gradients G, of the shape of V.

    The states before all chunks are computed again for each bundle, into ``scratch [ranges, ·]``. With λ the gradient
    of the state after a chunk, S = L ⊙ C Bᵀ and D = G vᵀ:

        ∂v = Sᵀ G + end · B λ          ∂C = (D ⊙ L) B + begin · G hᵀ      ∂L = D ⊙ C Bᵀ
        ∂begin = Σ_n C ⊙ G hᵀ          ∂B = (D ⊙ L)ᵀ C + end · v λᵀ
        ∂end = Σ_n B ⊙ v λᵀ            λ ← begin_{Q−1} λ + Cᵀ (begin · G)

    Tasks are divided into ``ranges``, each with separate gradients of B and C, so that their sum does not depend on
    timing: ``dw [P/width, H, E]`` and ``dbeta [P/width, H, T]`` are set, ``dB, dC [ranges, G, T, N]`` are added to, and
    so is dV unless ``fresh``. ``ends``: the states that enter, the gradients of those that leave, and of those that
    enter, which are set.
    """
    w, beta, B, C, V, G, dw, dbeta, dB, dC, dV = arrays
    (heads, _), (groups, _, N), dtype = w.shape, B.shape, B.dtype
    size, width, tasks = line.chunk, line.width, heads * line.parts
    chunks, states, most = line.path.size, N * width, min(line.bundle, -(-tasks // ranges))
    memory = aligned_empty(most * states, dtype)
    share, own = group_buffers(size, N, dtype), task_buffers(size, width, N, dtype)
    for r in range(first, last):
        before, end = scratch[r], tasks * (r + 1) // ranges
        for low in range(tasks * r // ranges, end, line.bundle):
            recompute_states(before, low, min(low + line.bundle, end), own, share.b, w, beta, B, V, ends[0], line)
            clear(memory, 0, memory.size)
            for chunk in range(chunks - 1, -1, -1):
                start, stop, group = load(line.bounds, chunk), load(line.bounds, chunk + 1), -1
                for task in range(low, min(low + line.bundle, end)):
                    head = task // line.parts
                    if head * groups // heads != group:
                        if group >= 0:
                            store_group(share, own, dB, dC, r * groups + group, line, start, stop)
                        group = head * groups // heads
                        load_group(share, B, C, group, line, start, stop)
                    h = before, ((task - low) * chunks + chunk) * states, width
                    carried = memory, (task - low) * states, width
                    load_task(own, w, beta, V, G, task, line, start, stop)
                    if line.with_states and ends_path(line, chunk):
                        load_state(memory, carried[1], ends[1], task, chunk, line)
                    continued, continues = line.with_states or chunk > 0, line.with_states or chunk < chunks - 1
                    chunk_adjoint(own, share, h, carried, continued, continues, line, N)
                    if line.with_states and begins_path(line, chunk):
                        store_state(ends[2], memory, carried[1], task, chunk, line)
                    store_task(own, beta, V, dw, dbeta, dV, task, fresh, line, start, stop)
                store_group(share, own, dB, dC, r * groups + group, line, start, stop)


@kernel
def recompute_states(before, low, high, own, b, w, beta, B, V, entering, line):
    """The states of tasks ``low`` to ``high`` before each chunk, ``[tasks, chunks, N, width]``."""
    (heads, _), (groups, nodes, N), size, width = w.shape, B.shape, line.chunk, line.width
    chunks, states = line.path.size, N * width
    for task in range(low, high):
        if line.with_states:
            load_state(before, (task - low) * chunks * states, entering, task, 0, line)
        else:
            clear(before, (task - low) * chunks * states, ((task - low) * chunks + 1) * states)
    for chunk in range(chunks - 1):
        start, stop, group = load(line.bounds, chunk), load(line.bounds, chunk + 1), -1
        for task in range(low, high):
            head, o = task // line.parts, ((task - low) * chunks + chunk) * states
            if line.with_states and ends_path(line, chunk):
                load_state(before, o + states, entering, task, chunk + 1, line)
                continue
            if head * groups // heads != group:
                group = head * groups // heads
                rows_of(b, B, group * nodes * N, N, N, line, start, stop)
            weights_of(own.a, w, head, line, start, stop)
            values_of(own.v, V, task, beta, line, start, stop)
            remaining = B.dtype.type(1)
            for j in range(size - 1, -1, -1):
                store(own.dend, j, remaining)
                remaining *= load(own.a, j)
            scale_rows(own.v, size, width, own.dend, 0)
            for k in range(o, o + states, WIDTH):
                vstore(before, k + states, remaining * vload(before, k))
            multiply(1, (before, o + states, width), N, width, (b[0], 0, 1), b[2], own.v, size)


class GroupBuffers(NamedTuple):
    """Buffers that the tasks of a group share: B, C, their transposes, C Bᵀ; gradients of the last three."""

    b: tuple
    c: tuple
    bt: tuple
    ct: tuple
    CB: tuple
    dbt: tuple
    dct: tuple
    dCB: tuple


class TaskBuffers(NamedTuple):
    """Buffers of one task: vectors ``[Q]``, with da and so on their gradients, and matrices."""

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
def group_buffers(size, N, dtype):
    """Empty `GroupBuffers`."""
    b, c, bt, ct = matrix(size, N, dtype), matrix(size, N, dtype), matrix(N, size, dtype), matrix(N, size, dtype)
    dbt, dct = matrix(N, size, dtype), matrix(N, size, dtype)
    return GroupBuffers(b, c, bt, ct, matrix(size, size, dtype), dbt, dct, matrix(size, size, dtype))


@inlined
def task_buffers(size, width, N, dtype):
    """Empty `TaskBuffers`."""
    a, begin = aligned_empty(size, dtype), aligned_empty(size, dtype)
    da, dbegin, dend = aligned_empty(size, dtype), aligned_empty(size, dtype), aligned_empty(size, dtype)
    v, g, dv, u = (
        matrix(size, width, dtype),
        matrix(size, width, dtype),
        matrix(size, width, dtype),
        matrix(size, width, dtype),
    )
    vt, gt, x = matrix(width, size, dtype), matrix(width, size, dtype), matrix(N, size, dtype)
    L, S, D = matrix(size, size, dtype), matrix(size, size, dtype), matrix(size, size, dtype)
    return TaskBuffers(a, begin, da, dbegin, dend, v, vt, g, gt, L, S, D, x, dv, u)


@inlined
def load_group(share, B, C, group, line, start, stop):
    """B and C of a chunk, their products, and gradients set to 0."""
    size, N = line.chunk, B.shape[2]
    origin = group * B.shape[1] * N
    rows_of(share.b, B, origin, N, N, line, start, stop)
    rows_of(share.c, C, origin, N, N, line, start, stop)
    transpose(share.bt, share.b, size, N)
    transpose(share.ct, share.c, size, N)
    multiply_to_lower(0, share.CB, size, share.c, share.bt, N)
    clear_rows(share.dbt, 0, N, size)
    clear_rows(share.dct, 0, N, size)
    clear_rows(share.dCB, 0, size, size)


@inlined
def store_group(share, own, dB, dC, group, line, start, stop):
    """``∂C += dCB B + dctᵀ``, ``∂B += dCBᵀ C + dbtᵀ``."""
    size, N = line.chunk, dB.shape[3]
    rows = matrix(size, N, dB.dtype)
    transpose(rows, share.dct, N, size)
    multiply_lower(1, rows, size, N, share.dCB, share.b)
    add_rows(dC, group * dC.shape[2] * N, N, rows, N, line, start, stop, False)
    transpose(rows, share.dbt, N, size)
    multiply_lower_transposed(1, rows, size, N, share.dCB, share.c)
    add_rows(dB, group * dB.shape[2] * N, N, rows, N, line, start, stop, False)


@inlined
def load_task(own, w, beta, V, G, task, line, start, stop):
    """Weights, mask, v and incoming gradients of a task's chunk."""
    size, width = line.chunk, line.width
    weights_of(own.a, w, task // line.parts, line, start, stop)
    mask_of(own.L, own.begin, own.a, size)
    values_of(own.v, V, task, beta, line, start, stop)
    rows_of(own.g, G[0], origin_of(G, task, line), G[1][2], width, line, start, stop)
    transpose(own.vt, own.v, size, width)
    transpose(own.gt, own.g, size, width)


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
            store(own.dbegin, size - 1, load(own.dbegin, size - 1) + inner(h, carried, N * width))
    multiply_to_lower(0, own.D, size, own.g, own.vt, width)
    mask_adjoint(own, share, line)
    multiply_lower_transposed(0, own.dv, size, width, own.S, own.g)
    if continues:
        multiply(0, own.u, size, width, share.b, 1, carried, N)
        add_scaled_rows(own.dv, own.u, size, width, L[0], (size - 1) * L[2])
    if continued:
        scale_rows(own.g, size, width, own.begin, 0)
        multiply(load(own.begin, size - 1), carried, N, width, (share.c[0], 0, 1), share.c[2], own.g, size)


@inlined
def add_inner(dfactor, dmatrix, x, y, factor, o, N, size):
    """Add ``Σ_n y ⊙ x`` to a gradient ``[Q]``, and ``factor · x`` to one ``[N, Q]``."""
    for q in range(0, size, WIDTH):
        f, d = vload(factor, o + q), vload(dfactor, q)
        for n in range(N):
            z = vload(x[0], n * x[2] + q)
            d = fma(vload(y[0], n * y[2] + q), z, d)
            vstore(dmatrix[0], n * dmatrix[2] + q, fma(f, z, vload(dmatrix[0], n * dmatrix[2] + q)))
        vstore(dfactor, q, d)


@inlined
def inner(x, y, size):
    """``Σ x y`` of states."""
    s0 = s1 = splat(x[0].dtype.type(0))
    for k in range(0, size, 2 * WIDTH):
        s0 = fma(vload(x[0], x[1] + k), vload(y[0], y[1] + k), s0)
        s1 = fma(vload(x[0], x[1] + k + WIDTH), vload(y[0], y[1] + k + WIDTH), s1)
    return horizontal_sum(s0 + s1)


@inlined
def add_scaled_rows(x, y, rows, count, factors, o):
    """Add row i of y times ``factors[o + i]`` to that of x."""
    for i in range(rows):
        factor = splat(load(factors, o + i))
        for p in range(0, count, WIDTH):
            vstore(x[0], i * x[2] + p, fma(factor, vload(y[0], i * y[2] + p), vload(x[0], i * x[2] + p)))


@inlined
def mask_adjoint(own, share, line):
    """S = L ⊙ C Bᵀ, ``∂(C Bᵀ) += D ⊙ L``, and through ``∂L`` the gradients of a: ``Λ_i = ∂L_i + a_{i+1} Λ_{i+1}``."""
    (D, _, ds), (L, _, ls), S, CB, dCB, size = own.D, own.L, own.S, share.CB, share.dCB, line.chunk
    if line.exclude_diagonal:
        clear_diagonal(own.D, size)
    for i in range(size):
        for j in range(0, i + 1, WIDTH):
            d, x, s, o = vload(D, i * ds + j), vload(L, i * ls + j), vload(CB[0], i * CB[2] + j), i * dCB[2] + j
            vstore(S[0], i * S[2] + j, x * s)
            vstore(dCB[0], o, fma(d, x, vload(dCB[0], o)))
            vstore(D, i * ds + j, d * s)
    if line.exclude_diagonal:
        clear_diagonal(S, size)
    first = load(own.dbegin, 0) * load(L, 0)
    for i in range(size):
        store(D, i * ds, load(D, i * ds) + load(own.a, 0) * load(own.dbegin, i))
        first += load(own.dbegin, i) * load(L, i * ls) if i > 0 else 0
    store(own.da, 0, first)
    for j in range(0, size, WIDTH):
        vstore(D, (size - 1) * ds + j, vload(D, (size - 1) * ds + j) + vload(own.dend, j))
    for i in range(size - 1, 0, -1):
        factor, d = splat(load(own.a, i)), splat(D.dtype.type(0))
        for j in range(0, i, WIDTH):
            x, o = vload(D, i * ds + j), (i - 1) * ds + j
            d = fma(x, vload(L, (i - 1) * ls + j), d)
            vstore(D, o, fma(factor, x, vload(D, o)))
        store(own.da, i, horizontal_sum(d))


@inlined
def store_task(own, beta, V, dw, dbeta, dV, task, fresh, line, start, stop):
    """Store the gradients of a task's chunk; those of V are added, or set if ``fresh``."""
    heads, nodes, head = beta.shape[0], line.node.size, task // line.parts
    row = task % line.parts * heads + head
    vo, do = origin_of(V, task, line), origin_of(dV, task, line)
    for k in range(start, stop):
        t, i, e = load(line.node, k), k - start, load(line.edge, k)
        x, y, factor = vo + t * V[1][2], do + t * dV[1][2], splat(load(beta, head * nodes + t))
        d = splat(beta.dtype.type(0))
        for p in range(0, line.width, WIDTH):
            dv = vload(own.dv[0], i * own.dv[2] + p)
            d = fma(dv, vload(V[0], x + p), d)
            vstore(dV[0], y + p, factor * dv if fresh else fma(factor, dv, vload(dV[0], y + p)))
        store(dbeta, row * nodes + t, horizontal_sum(d))
        if e >= 0:
            store(dw, row * dw.shape[2] + e, load(own.da, i))
