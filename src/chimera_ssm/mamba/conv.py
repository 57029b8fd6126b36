"""`causal_conv1d_fn` and `causal_conv1d_update`: short causal convolutions, as in the package ``causal_conv1d``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.mamba.checks import check_conv, check_conv_state, check_seq_idx
from chimera_ssm.nn.kernel_support import can_use_kernels
from chimera_ssm.nn.window_gather import gather_convolution, window_table
from chimera_ssm.topology import Line


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    seq_idx: Tensor | None = None,
    initial_states: Tensor | None = None,
    return_final_states: bool = False,
    activation: str | None = None,
) -> Any:
    """A causal depthwise convolution, ``out_t = act(bias + Σ_k weight_k x_{t−width+1+k})``.

    Computed in float32 at least; every argument has a gradient. Fast on CPUs if ``x.mT`` is contiguous and dim is a
    multiple of 16.

    Args:
        x: ``[batch, dim, seqlen]``.
        weight: ``[dim, width]``.
        bias: ``[dim]``.
        seq_idx: ``[batch, seqlen]``, which sequence of its row a step belongs to; not decreasing. A step sees no other
            sequence than its own.
        initial_states: inputs before the first step, ``[batch, dim, width − 1]``; zero if omitted.
        return_final_states: whether to return the last ``width − 1`` inputs of each row as well.
        activation: ``None``, ``"silu"`` or ``"swish"``.

    Returns:
        Like x, and with ``return_final_states`` also ``[batch, dim, width − 1]``.
    """
    check_conv(x, weight, bias, initial_states, activation)
    if seq_idx is not None:
        check_seq_idx(seq_idx, x.mT)
    before, whole = 0, x
    if initial_states is not None:
        before = initial_states.shape[-1]
        whole = torch.cat([initial_states.to(x.dtype), x], dim=-1)
        seq_idx = None if seq_idx is None else torch.cat([seq_idx[:, :1].expand(-1, before), seq_idx], dim=1)
    rows = whole.mT.to(torch.promote_types(x.dtype, torch.float32))
    table = Line(rows.shape[1]).cached(window_table, weight.shape[1], 1, True, x.device)
    batch, length, dim = rows.shape
    if seq_idx is not None:
        table, rows = _divided(table, seq_idx), rows.reshape(1, batch * length, dim)
    y = _convolve(rows, weight, bias, table, activation).view(batch, length, dim)[:, before:]
    out = y.mT.to(x.dtype)
    if not return_final_states:
        return out
    reach = weight.shape[1] - 1
    return out, F.pad(whole, (reach, 0))[..., whole.shape[-1] :]


def causal_conv1d_update(
    x: Tensor, conv_state: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None
) -> Tensor:
    """The next steps of a causal convolution; ``conv_state``, the last inputs, is updated in place.

    Args:
        x: ``[batch, dim]``, or several steps, ``[batch, dim, seqlen]``.
        conv_state: ``[batch, dim, width − 1]`` or longer.
        weight: ``[dim, width]``.
        bias: ``[dim]``.
        activation: ``None``, ``"silu"`` or ``"swish"``.

    Returns:
        Like x.
    """
    if isinstance(x, Tensor) and x.dim() == 2:
        return causal_conv1d_update(x.unsqueeze(-1), conv_state, weight, bias, activation).squeeze(-1)
    check_conv(x, weight, bias, None, activation)
    check_conv_state(conv_state, x, weight)
    steps, width = x.shape[-1], weight.shape[1]
    window = torch.cat([conv_state, x.to(conv_state.dtype)], dim=-1)
    conv_state.copy_(window[..., -conv_state.shape[-1] :])
    dtype = torch.promote_types(x.dtype, torch.float32)
    window = window[..., window.shape[-1] - steps - width + 1 :].to(dtype).unfold(-1, width, 1)
    y = torch.linalg.vecdot(window, weight.to(dtype).unsqueeze(1))
    y = y if bias is None else y + bias.to(dtype).unsqueeze(-1)
    return (y if activation is None else F.silu(y)).to(x.dtype)


def _convolve(rows: Tensor, weight: Tensor, bias: Tensor | None, table: Tensor, activation: str | None) -> Tensor:
    """The convolution of ``rows [Z, T, D]`` over the windows of a table."""
    taps = weight.t().to(rows.dtype)
    bias = rows.new_zeros(rows.shape[-1]) if bias is None else bias.to(rows.dtype)
    if activation is None:
        return gather_convolution(rows, taps, bias, table)
    if rows.shape[-1] % 16 == 0 and can_use_kernels(rows):
        from chimera_ssm.nn.window_conv_cpu import ActivatedWindow  # Numba is optional and slow to load

        return ActivatedWindow.apply(rows, taps, bias, table)
    return F.silu(gather_convolution(rows, taps, bias, table))


def _divided(table: Tensor, seq_idx: Tensor) -> Tensor:
    """The table of all rows as one, ``[width, batch · T]``, with windows that end where sequences begin."""
    (batch, length), outside = seq_idx.shape, seq_idx.numel()
    padded = F.pad(seq_idx, (0, 1))
    same = (padded[:, table] == seq_idx.unsqueeze(1)) & (table < length)
    node = table + length * torch.arange(batch, device=table.device)[:, None, None]
    return torch.where(same, node, outside).transpose(0, 1).flatten(1)
