"""`selective_state_update`: one step of Mamba's recurrence, with the signature of ``mamba_ssm``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.mamba.checks import check_step
from chimera_ssm.ops.broadcasting import compute_dtype


def selective_state_update(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    state_batch_indices: Tensor | None = None,
) -> Tensor:
    """One step of a selective state space model; ``state`` is updated in place.

        Δ = softplus(dt + dt_bias)        h ← exp(Δ A) h + Δ x Bᵀ        out = (h C + D x) · silu(z)

    Computed in float32 at least. Every argument has a gradient; a state that requires one must not be a leaf.

    Args:
        state: h, ``[batch, nheads, dim, dstate]``, or without heads ``[batch, dim, dstate]``; likewise below.
        x: ``[batch, nheads, dim]``.
        dt: ``[batch, nheads, dim]``.
        A: ``[nheads, dim, dstate]``; negative.
        B: ``[batch, ngroups, dstate]``, without heads ``[batch, dstate]``; ngroups divides nheads.
        C: like B.
        D: ``[nheads, dim]``.
        z: gate, like x.
        dt_bias: ``[nheads, dim]``.
        dt_softplus: whether to apply softplus to dt.
        state_batch_indices: rows of ``state`` that belong to the rows of x, ``[batch]``, if it has others as well.

    Returns:
        Like x.
    """
    if isinstance(state, Tensor) and state.dim() == 3:
        rows: Any = (None if t is None else t.unsqueeze(1) for t in (x, dt, B, C, z))
        channels: Any = (None if t is None else t.unsqueeze(0) for t in (A, D, dt_bias))
        (x, dt, B, C, z), (A, D, dt_bias) = rows, channels
        state, options = state.unsqueeze(1), (dt_softplus, state_batch_indices)
        return selective_state_update(state, x, dt, A, B, C, D, z, dt_bias, *options).squeeze(1)
    check_step(state, x, dt, A, B, C, D, z, dt_bias, state_batch_indices)
    rows = None if state_batch_indices is None else state_batch_indices.long()
    dtype = compute_dtype(*(t for t in (state, x, dt, A, B, C, D, z, dt_bias) if t is not None))
    h = state if rows is None else state.index_select(0, rows)
    if torch.is_grad_enabled() and h is state:
        h = h.clone()  # autograd saves it, and it is about to change
    h, out = _step(h.to(dtype), x.to(dtype), dt.to(dtype), A, B.to(dtype), C.to(dtype), dt_bias, dt_softplus)
    if rows is None:
        state.copy_(h)
    else:
        state.index_copy_(0, rows, h.to(state.dtype))
    out = out if D is None else torch.addcmul(out, x.to(dtype), D.to(dtype))
    return (out if z is None else out * F.silu(z.to(dtype))).to(x.dtype)


def _step(
    h: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, dt_bias: Tensor | None, dt_softplus: bool
) -> tuple[Tensor, Tensor]:
    """The new state and its product with C. Where Δ and A are expanded from one number, they are computed once."""
    delta = _narrowed(dt, 1) if dt_bias is None else _narrowed(dt, 1) + _narrowed(dt_bias, 1)
    delta = F.softplus(delta) if dt_softplus else delta
    B, C = (t.unsqueeze(2).expand(-1, -1, x.shape[1] // t.shape[1], -1).flatten(1, 2) for t in (B, C))
    decayed = torch.exp(delta.unsqueeze(-1) * _narrowed(A, 2)) * h
    h = torch.addcmul(decayed, (delta * x).unsqueeze(-1), B.unsqueeze(-2))
    return h, (h @ C.unsqueeze(-1)).squeeze(-1)


def _narrowed(x: Tensor, dims: int) -> Tensor:
    """``x`` with one entry in those of its last dimensions along which it is expanded."""
    for dim in range(-dims, 0):
        if x.stride(dim) == 0:
            x = x.narrow(dim, 0, 1)
    return x
