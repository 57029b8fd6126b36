"""`mamba_chunk_scan_combined`: Mamba-2's scan, with the signature of ``mamba_ssm``, on the scan of directed lines."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.mamba.checks import check_scan, check_sequences
from chimera_ssm.ops import mix
from chimera_ssm.ops.broadcasting import compute_dtype
from chimera_ssm.topology import Line, batch


def mamba_chunk_scan_combined(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int | None = None,
    D: Tensor | None = None,
    z: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    seq_idx: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    return_varlen_states: bool = False,
    state_dtype: torch.dtype | None = None,
) -> Any:
    """Mamba-2 on sequences, as the function of this name in ``mamba_ssm``, in float32 at least.

        Δ_t = clamp(softplus(dt_t + dt_bias), *dt_limit)        h_t = exp(Δ_t A) h_{t−1} + Δ_t x_t B_tᵀ
        out_t = (h_t C_t + D x_t) · silu(z_t)

    Args:
        x: ``[batch, seqlen, nheads, headdim]``.
        dt: ``[batch, seqlen, nheads]``.
        A: ``[nheads]``, negative.
        B: ``[batch, seqlen, ngroups, dstate]``; ngroups divides nheads.
        C: like B.
        chunk_size: not used: it does not change the result.
        D: ``[nheads]`` or ``[nheads, headdim]``.
        z: gate, like x.
        dt_bias: ``[nheads]``.
        initial_states: h before the first sequence of each row, ``[batch, nheads, headdim, dstate]``.
        seq_idx: the sequence that a step belongs to, ``[batch, seqlen]``, not decreasing; no state passes between them.
        cu_seqlens: where the sequences of a single row begin, and seqlen, ``[num_sequences + 1]``. It implies
            ``seq_idx``; in ``mamba_ssm`` it selects the returned states only, and ``seq_idx`` is given as well.
        dt_softplus: whether to apply softplus to dt.
        dt_limit: smallest and largest Δ.
        return_final_states: whether to return the state after each row, ``[batch, nheads, headdim, dstate]``.
        return_varlen_states: whether to return the state after each sequence of ``cu_seqlens``, the same with
            ``num_sequences`` for batch.
        state_dtype: not used: states are computed and returned in float32 at least.

    Returns:
        ``[batch, seqlen, nheads, headdim]`` in the dtype of x; with states, a tuple of that and these, in this order.
    """
    check_scan(x, dt, A, B, C, D, z, dt_bias, initial_states, dt_limit)
    starts, sizes = check_sequences(x, seq_idx, cu_seqlens, return_varlen_states)
    dtype = compute_dtype(*(t for t in (x, dt, A, B, C, D, z, dt_bias, initial_states) if t is not None))
    delta, decay = _steps(dt.to(dtype), A.to(dtype), dt_bias, dt_softplus, dt_limit)
    state = None if initial_states is None else (decay[:, 0, :, None, None] * initial_states).mT
    if return_varlen_states:
        y, ends = _on_separate_lines(delta, decay, x.to(dtype), B, C, sizes, state)
        states = [ends[-1:], ends] if return_final_states else [ends]
    else:
        y, states = _on_one_line(delta, decay, x.to(dtype), B, C, starts, state, return_final_states)
    y = _finish(y, x.to(dtype), D, z).to(x.dtype)
    return (y, *(state.mT for state in states)) if states else y


def _on_one_line(
    delta: Tensor,
    decay: Tensor,
    x: Tensor,
    B: Tensor,
    C: Tensor,
    starts: Tensor | None,
    state: Tensor | None,
    final: bool,
) -> tuple[Tensor, list[Tensor]]:
    """``h_t C_t`` of rows that are cut where sequences start, and the last states if wanted, ``[batch, H, N, P]``."""
    if starts is not None:
        decay = decay.masked_fill(starts.unsqueeze(-1), 0)  # exact: nothing passes an edge of weight 0
    operands = decay[:, 1:].mT, C.transpose(1, 2), B.transpose(1, 2), x.transpose(1, 2), delta.mT
    result = mix(Line(x.shape[1]), *operands, initial_state=state, return_state=final)
    y, *states = result if final else [result]
    return y.transpose(1, 2), states


def _steps(
    dt: Tensor, A: Tensor, dt_bias: Tensor | None, dt_softplus: bool, dt_limit: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Δ and ``exp(Δ A)``, ``[batch, seqlen, nheads]``."""
    delta = dt if dt_bias is None else dt + dt_bias
    delta = (F.softplus(delta) if dt_softplus else delta).clamp(*dt_limit)
    return delta, torch.exp(delta * A)


def _on_separate_lines(
    delta: Tensor, decay: Tensor, x: Tensor, B: Tensor, C: Tensor, sizes: list[int], state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``h_t C_t`` of a single row, each sequence of which is a line; and the last states of all sequences."""
    lines = batch([Line(n) for n in sizes])
    weight = torch.cat([part[1:] for part in decay[0].split(sizes)]).mT
    if state is not None:
        state = F.pad(state, (0, 0, 0, 0, 0, 0, 0, len(sizes) - 1))
    C, B, V = (t[0].transpose(0, 1) for t in (C, B, x))
    y, states = mix(lines, weight, C, B, V, delta[0].mT, initial_state=state, return_state=True)
    return y.transpose(0, 1).unsqueeze(0), states


def _finish(y: Tensor, x: Tensor, D: Tensor | None, z: Tensor | None) -> Tensor:
    """``(y + D x) · silu(z)``."""
    if D is not None:
        y = torch.addcmul(y, x, (D.unsqueeze(-1) if D.dim() == 1 else D).to(x.dtype))
    return (y if z is None else y * F.silu(z.to(y.dtype))).contiguous()
