"""The functions that Mamba-2 layers of ``transformers`` call, on CPUs by those of this package."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.mamba.checks import sequence_lengths
from chimera_ssm.mamba.conv import causal_conv1d_fn, causal_conv1d_update
from chimera_ssm.mamba.scan import mamba_chunk_scan_combined
from chimera_ssm.mamba.step import selective_state_update

#: The function whose callers are Mamba-2 layers.
SCAN = "mamba2_chunk_scan"

Function = Callable[..., Any]


def _on_cpu(function: Function) -> Callable[[Function], Function]:
    """Replace a function on CPUs, and drop keyword arguments that the new one does not have, as transformers does."""
    known = set(inspect.signature(function).parameters)

    def wrap(original: Function) -> Function:
        def call(first: Tensor, *args: Any, **kwargs: Any) -> Any:
            if first.device.type != "cpu":
                return original(first, *args, **kwargs)
            return function(first, *args, **{name: value for name, value in kwargs.items() if name in known})

        return call

    return wrap


def _convolution(function: Function) -> Callable[[Function], Function]:
    """The same for a convolution, with activations other than SiLU left to transformers."""

    def wrap(original: Function) -> Function:
        replaced = _on_cpu(function)(original)

        def call(x: Tensor, *args: Any, activation: str | None = None, **kwargs: Any) -> Any:
            if activation not in (None, "silu", "swish"):
                return original(x, *args, activation=activation, **kwargs)
            return replaced(x, *args, activation=activation, **_with_seq_idx(x, kwargs))

        return call

    return wrap


def _with_seq_idx(x: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with ``seq_idx`` for all of x, which a cache may have extended to the left."""
    seq_idx, bounds = kwargs.get("seq_idx"), kwargs.get("cu_seqlens")
    if seq_idx is None and bounds is not None:
        sizes = torch.tensor(sequence_lengths(bounds), device=x.device)
        seq_idx = torch.arange(len(sizes), device=x.device).repeat_interleave(sizes).unsqueeze(0)
        if len(x) > 1 or seq_idx.shape[1] > x.shape[-1]:
            return kwargs  # the scan refuses these bounds
    if not isinstance(seq_idx, Tensor) or seq_idx.dim() != 2:
        return kwargs  # there is none, or the convolution refuses it
    missing = x.shape[-1] - seq_idx.shape[1]
    if missing > 0:
        seq_idx = torch.cat([seq_idx[:, :1].expand(-1, missing), seq_idx], dim=1)
    return {**kwargs, "seq_idx": seq_idx}


def _decline(original: Function) -> Function:
    """On CPUs ``None``, which tells the layer to compute what the function fuses step by step."""

    def call(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        return None if first.device.type == "cpu" else original(first, *args, **kwargs)

    return call


#: By the name in modules of transformers: what replaces a function, in words, and how.
FUNCTIONS = {
    SCAN: ("chimera_ssm.mamba_chunk_scan_combined", _on_cpu(mamba_chunk_scan_combined)),
    "mamba2_selective_state_update": ("chimera_ssm.selective_state_update", _on_cpu(selective_state_update)),
    "causal_conv1d_fn": ("chimera_ssm.causal_conv1d_fn", _convolution(causal_conv1d_fn)),
    "causal_conv1d_update": ("chimera_ssm.causal_conv1d_update", _convolution(causal_conv1d_update)),
    "mamba2_split_conv1d_scan_combined": ("the functions above, one after the other", _decline),
}
