"""Triton kernels of directed lines, in chunks: masks within a chunk, states between them.

A chunk has at most Q places of one path. Within it, for places i, j, k, and weights a that enter each place,

    m_ij = Π_{j<k≤i} a_k        into_i = Π_{k≤i} a_k        end_j = Π_{k>j} a_k

The weight into the first place of a path is 1: what enters there is the initial state, or zero. Masks are products,
never exponentials of sums of logarithms, so that weights may be zero or negative.

Tensors: ``w [heads, E]``, ``beta [heads, T]``, ``V, g [heads, T, P]``, ``C, B [groups, T, N]``, states
``[heads, chunks, N, P]``. Tables: ``order [T]``, the node at each place; ``ahead [T]``, the edge into each place, E
where there is none; ``start, stop [chunks]``, the places of a chunk. N and P are processed in ``NB`` and ``PB`` blocks
of ``BN`` and ``BP``. The chunk is the first number of a program; ``each`` heads of a group follow each other in one.
"""

# ruff: noqa: SIM108

from __future__ import annotations

import triton
import triton.language as tl

from chimera_ssm.gpu.matmul import dot


@triton.jit
def _places(order, start, stop, Q: tl.constexpr):  # type: ignore[no-untyped-def]
    """Places, whether each is in the chunk, its node, and the place after the chunk."""
    chunk = tl.program_id(0)
    t, last = tl.load(start + chunk) + tl.arange(0, Q), tl.load(stop + chunk)
    inside = t < last
    return t, inside, tl.load(order + t, mask=inside, other=0), last


@triton.jit
def _weights(w, ahead, t, inside, E):  # type: ignore[no-untyped-def]
    """The weights that enter places t; 1 outside of the chunk and where no edge enters."""
    edge = tl.load(ahead + t, mask=inside, other=E)
    return tl.load(w + edge, mask=edge < E, other=1.0).to(tl.float32)


@triton.jit
def _ends(w, ahead, t, last, E, Q: tl.constexpr):  # type: ignore[no-untyped-def]
    """``end_j = Π_{k>j} a_k`` within the chunk."""
    following = _weights(w, ahead, t + 1, (t + 1 < last) & (tl.arange(0, Q) + 1 < Q), E)
    return tl.cumprod(following, axis=0, reverse=True)


@triton.jit
def _mask(a, Q: tl.constexpr, STRICT: tl.constexpr):  # type: ignore[no-untyped-def]
    """``m_ij`` for i ≥ j, or i > j if ``STRICT``, else 0; at [j, i], so that the scan is along the rows of one warp."""
    i = tl.arange(0, Q)
    m = tl.cumprod(tl.where(i[None, :] > i[:, None], a[None, :], 1.0), axis=1)
    kept = i[None, :] > i[:, None] if STRICT else i[None, :] >= i[:, None]
    return tl.where(kept, m, 0.0)


@triton.jit
def _mask_before(b, Q: tl.constexpr):  # type: ignore[no-untyped-def]
    """``m_{k−1,j}`` for k > j, else 0, from ``b_k = a_{k−1}``; at [j, k]."""
    i = tl.arange(0, Q)
    m = tl.cumprod(tl.where(i[None, :] > i[:, None] + 1, b[None, :], 1.0), axis=1)
    return tl.where(i[None, :] > i[:, None], m, 0.0)


@triton.jit
def _rows(x, node, inside, width, k):  # type: ignore[no-untyped-def]
    """Columns k of the rows of nodes, ``[Q, K]``, zero outside of the chunk."""
    return tl.load(x + node[:, None] * width + k[None, :], mask=inside[:, None] & (k < width)[None, :], other=0.0)


@triton.jit
def _scores(x, y, node, inside, width, Q: tl.constexpr, BLOCKS: tl.constexpr, K: tl.constexpr,
            LOW: tl.constexpr, PREC: tl.constexpr):  # type: ignore[no-untyped-def]  # fmt: skip
    """``x_i · y_j`` for the nodes of the chunk."""
    scores = tl.zeros([Q, Q], tl.float32)
    for block in range(BLOCKS):
        k = block * K + tl.arange(0, K)
        scores += dot(_rows(x, node, inside, width, k), tl.trans(_rows(y, node, inside, width, k)), LOW, PREC)
    return scores


@triton.jit
def _state(states, N, P, n, p):  # type: ignore[no-untyped-def]
    """A block of a state, padded with zeros."""
    return tl.load(states + n[:, None] * P + p[None, :], mask=(n < N)[:, None] & (p < P)[None, :], other=0.0)


@triton.jit
def chunk_states(
    w, beta, C, B, V, g, states, decay, order, ahead, start, stop, T, E, N, P, chunks, share,
    Q: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """What a chunk adds to the state, ``Σ_j end_j β_j B_j v_jᵀ``.

    In the second half of the programs: what it adds to the adjoint, ``Σ_i into_i C_i g_iᵀ``. The last number of a
    program is the side, and the block of the state.
    """
    side, block = tl.program_id(2) // (NB * PB), tl.program_id(2) % (NB * PB)
    head, heads = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    n, p = block // PB * BN + tl.arange(0, BN), block % PB * BP + tl.arange(0, BP)
    t, inside, node, last = _places(order, start, stop, Q)
    a = _weights(w + head * E, ahead, t, inside, E)
    ends = _ends(w + head * E, ahead, t, last, E, Q)
    group = head // share
    if side == 0:
        factor = ends * tl.load(beta + head * T + node, mask=inside, other=0.0).to(tl.float32)
        left, right = _rows(B + group * T * N, node, inside, N, n), _rows(V + head * T * P, node, inside, P, p)
    else:
        factor = tl.cumprod(a, axis=0)
        left, right = _rows(C + group * T * N, node, inside, N, n), _rows(g + head * T * P, node, inside, P, p)
    state = dot(tl.trans(left), factor[:, None] * right.to(tl.float32), LOW, PREC)
    number = (side * heads + head) * chunks + tl.program_id(0)
    at = states + number * N * P + n[:, None] * P + p[None, :]
    tl.store(at, state, mask=(n < N)[:, None] & (p < P)[None, :])
    if tl.program_id(2) == 0:
        tl.store(decay + number, tl.sum(tl.where(tl.arange(0, Q) == 0, a * ends, 0.0), axis=0))


@triton.jit
def pass_states(
    states, decay, entering, leaving, part, first_chunk, heads, chunks, size, paths,
    ENDS: tl.constexpr, BLOCK: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Replace what each chunk adds by the state that enters it, ``h ← decay h + added``, path by path.

    In the second half of the programs the chunks are in reverse, and what enters is the gradient of the state that
    leaves a chunk. ``ENDS``: states enter the paths and leave them, each of which is a part.
    """
    path, number = tl.program_id(1), tl.program_id(2).to(tl.int64)
    head, reverse = number % heads, number >= heads
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < size
    h = tl.zeros([BLOCK], tl.float32)
    if ENDS:
        at_end = (number * paths + tl.load(part + path)) * size
        h += tl.load(entering + at_end + k, mask=inside, other=0.0)
    begin, end = tl.load(first_chunk + path), tl.load(first_chunk + path + 1)
    for step in range(0, end - begin):
        chunk = tl.where(reverse, end - 1 - step, begin + step)
        at = states + (number * chunks + chunk) * size + k
        added = tl.load(at, mask=inside, other=0.0)
        tl.store(at, h, mask=inside)
        h = tl.load(decay + head * chunks + chunk) * h + added
    if ENDS:
        tl.store(leaving + at_end + k, h, mask=inside)


@triton.jit
def chunk_outputs(
    w, beta, C, B, V, states, y, order, ahead, start, stop, T, E, N, P, chunks, share, each,
    STATES: tl.constexpr, ADD: tl.constexpr, STRICT: tl.constexpr,
    Q: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """``y_i (+)= Σ_j m_ij (C_i · B_j) β_j v_j + into_i C_iᵀ h``; ``STRICT`` leaves out j = i."""
    slot, p = tl.program_id(1), tl.program_id(2) * BP + tl.arange(0, BP)
    t, inside, node, _ = _places(order, start, stop, Q)
    group = (slot * each // share).to(tl.int64)
    S = _scores(C + group * T * N, B + group * T * N, node, inside, N, Q, NB, BN, LOW, PREC)
    for k in range(0, each):
        head = (slot * each + k).to(tl.int64)
        a = _weights(w + head * E, ahead, t, inside, E)
        scale = tl.load(beta + head * T + node, mask=inside, other=0.0).to(tl.float32)
        M = tl.trans(_mask(a, Q, STRICT)) * S * scale[None, :]
        out = dot(M, _rows(V + head * T * P, node, inside, P, p), LOW, PREC)
        if STATES:
            into = tl.cumprod(a, axis=0)
            h = states + (head * chunks + tl.program_id(0)) * N * P
            for block in range(NB):
                n = block * BN + tl.arange(0, BN)
                read = dot(_rows(C + group * T * N, node, inside, N, n), _state(h, N, P, n, p), LOW, PREC)
                out += into[:, None] * read
        place = y + head * T * P + node[:, None] * P + p[None, :]
        stored = inside[:, None] & (p < P)[None, :]
        if ADD:
            out += tl.load(place, mask=stored, other=0.0)
        tl.store(place, out, mask=stored)


@triton.jit
def chunk_value_gradients(
    w, beta, C, B, V, g, adjoints, dbeta, dV, written, order, ahead, start, stop,
    T, E, N, P, chunks, share, each, heads,
    STATES: tl.constexpr, ADD: tl.constexpr, STRICT: tl.constexpr,
    Q: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Gradients of V and β, with the gradient D of the state that leaves.

        dv_j = β_j u_j,      dβ_j = u_j · v_j,      u_j = Σ_i m_ij (C_i · B_j) g_i + end_j Dᵀ B_j

    It stores ``written_j = β_j B_jᵀ D v_j`` for `chunk_weight_gradients`. Both sums over P are stored by blocks.
    """
    slot, block_p = tl.program_id(1), tl.program_id(2)
    p = block_p * BP + tl.arange(0, BP)
    t, inside, node, last = _places(order, start, stop, Q)
    group = (slot * each // share).to(tl.int64)
    S = _scores(B + group * T * N, C + group * T * N, node, inside, N, Q, NB, BN, LOW, PREC)  # transposed
    for k in range(0, each):
        head = (slot * each + k).to(tl.int64)
        row = (block_p * heads + head) * T
        scale = tl.load(beta + head * T + node, mask=inside, other=0.0).to(tl.float32)
        v = _rows(V + head * T * P, node, inside, P, p).to(tl.float32)
        m = _mask(_weights(w + head * E, ahead, t, inside, E), Q, STRICT)
        u = dot(m * S, _rows(g + head * T * P, node, inside, P, p), LOW, PREC)
        if STATES:
            carried = tl.zeros([Q, BP], tl.float32)
            D = adjoints + (head * chunks + tl.program_id(0)) * N * P
            for block in range(NB):
                n = block * BN + tl.arange(0, BN)
                carried += dot(_rows(B + group * T * N, node, inside, N, n), _state(D, N, P, n, p), LOW, PREC)
            tl.store(written + row + node, scale * tl.sum(carried * v, axis=1), mask=inside)
            u += _ends(w + head * E, ahead, t, last, E, Q)[:, None] * carried
        tl.store(dbeta + row + node, tl.sum(u * v, axis=1), mask=inside)
        u *= scale[:, None]
        place = dV + head * T * P + node[:, None] * P + p[None, :]
        stored = inside[:, None] & (p < P)[None, :]
        if ADD:
            u += tl.load(place, mask=stored, other=0.0)
        tl.store(place, u, mask=stored)


@triton.jit
def chunk_key_gradients(
    w, beta, C, B, V, g, states, adjoints, dC, dB, read, order, ahead, start, stop,
    T, E, N, P, chunks, share, each, heads, groups,
    STATES: tl.constexpr, STRICT: tl.constexpr,
    Q: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """The gradient of C or, in the second half of the programs, of B, summed over the heads of a program.

        dC = W B + into ⊙ g hᵀ,      dB = Wᵀ C + β end ⊙ v Dᵀ,      W_ij = m_ij β_j (g_i · v_j)

    with h entering, and the gradient D of the state that leaves. The first half stores ``read_i = C_iᵀ h g_i`` for
    `chunk_weight_gradients`, by blocks of N.
    """
    slot, side, block_n = tl.program_id(1), tl.program_id(2) // NB, tl.program_id(2) % NB
    n = block_n * BN + tl.arange(0, BN)
    t, inside, node, last = _places(order, start, stop, Q)
    group = (slot * each // share).to(tl.int64)
    if side == 0:
        own, other, values, passed, out = C, B, g, states, dC
    else:
        own, other, values, passed, out = B, C, V, adjoints, dB
    other_rows = _rows(other + group * T * N, node, inside, N, n)
    total = tl.zeros([Q, BN], tl.float32)
    for k in range(0, each):
        head = (slot * each + k).to(tl.int64)
        a = _weights(w + head * E, ahead, t, inside, E)
        scale = tl.load(beta + head * T + node, mask=inside, other=0.0).to(tl.float32)
        X = _scores(V + head * T * P, g + head * T * P, node, inside, P, Q, PB, BP, LOW, PREC)
        W = _mask(a, Q, STRICT) * X * scale[:, None]  # transposed
        if side == 0:
            W = tl.trans(W)
        total += dot(W, other_rows, LOW, PREC)
        if STATES:
            if side == 0:
                factor = tl.cumprod(a, axis=0)
            else:
                factor = scale * _ends(w + head * E, ahead, t, last, E, Q)
            number = head * chunks + tl.program_id(0)
            reads = tl.zeros([Q], tl.float32)
            for block in range(PB):
                p = block * BP + tl.arange(0, BP)
                h = _state(passed + number * N * P, N, P, n, p)
                through = dot(_rows(values + head * T * P, node, inside, P, p), tl.trans(h), LOW, PREC)
                total += factor[:, None] * through
                if side == 0:
                    reads += tl.sum(_rows(own + group * T * N, node, inside, N, n).to(tl.float32) * through, axis=1)
            if side == 0:
                tl.store(read + (block_n * heads + head) * T + node, reads, mask=inside)
    # One sum for each slot of the group.
    at = out + ((slot % (share // each)) * groups + group) * T * N + node[:, None] * N + n[None, :]
    tl.store(at, total, mask=inside[:, None] & (n < N)[None, :])


@triton.jit
def chunk_weight_gradients(
    w, beta, C, B, V, g, states, adjoints, dw, read, written, order, ahead, start, stop,
    T, E, N, P, chunks, share, each, heads,
    STATES: tl.constexpr,
    Q: tl.constexpr, NB: tl.constexpr, BN: tl.constexpr, PB: tl.constexpr, BP: tl.constexpr,
    LOW: tl.constexpr, PREC: tl.constexpr,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Gradients of the weights.

    da_k = ⟨λ_k, h_{k−1}⟩,      λ_k = Σ_i m_ik C_i g_iᵀ + end_k D,
    h_{k−1} = Σ_j m_{k−1,j} β_j B_j v_jᵀ + into_{k−1} h
    """
    slot = tl.program_id(1)
    t, inside, node, last = _places(order, start, stop, Q)
    edge = tl.load(ahead + t, mask=inside, other=E)
    group = (slot * each // share).to(tl.int64)
    S = _scores(C + group * T * N, B + group * T * N, node, inside, N, Q, NB, BN, LOW, PREC)
    for k in range(0, each):
        head = (slot * each + k).to(tl.int64)
        scale = tl.load(beta + head * T + node, mask=inside, other=0.0).to(tl.float32)
        both = S * _scores(g + head * T * P, V + head * T * P, node, inside, P, Q, PB, BP, LOW, PREC) * scale[None, :]
        m = _mask(_weights(w + head * E, ahead, t, inside, E), Q, False)
        both = dot(m, both, tl.float32, "ieee")  # at [k, j]; a second rounding of `both` would exceed the error bound
        before = _weights(w + head * E, ahead, t - 1, inside & (tl.arange(0, Q) > 0), E)
        da = tl.zeros([Q], tl.float32)
        if STATES:
            reads, writes = tl.zeros([Q], tl.float32), tl.zeros([Q], tl.float32)
            number = (head * chunks + tl.program_id(0)) * N * P
            crosses = tl.zeros([BN], tl.float32)
            for block in range(NB):
                reads += tl.load(read + (block * heads + head) * T + node, mask=inside, other=0.0)
                for block_p in range(PB):
                    n, p = block * BN + tl.arange(0, BN), block_p * BP + tl.arange(0, BP)
                    h, D = _state(states + number, N, P, n, p), _state(adjoints + number, N, P, n, p)
                    crosses += tl.sum(D * h, axis=1)
            for block in range(PB):
                writes += tl.load(written + (block * heads + head) * T + node, mask=inside, other=0.0)
            ends = _ends(w + head * E, ahead, t, last, E, Q)
            both += ends[:, None] * writes[None, :]
            da += (tl.sum(m * reads[None, :], axis=1) + ends * tl.sum(crosses, axis=0)) * tl.cumprod(before, axis=0)
        da += tl.sum(both * tl.trans(_mask_before(before, Q)), axis=1)
        tl.store(dw + head * E + edge, da, mask=inside & (edge < E))
