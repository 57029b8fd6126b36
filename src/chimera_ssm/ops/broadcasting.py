"""Leading dimensions, dtype and autocast of the functional interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


def flatten_lead(x: Tensor, lead: Sequence[int], kept: int) -> Tensor:
    """``x`` with its leading dimensions broadcast to ``lead`` and made one; the last ``kept`` stay."""
    tail = x.shape[-kept:]
    return x.expand(*lead, *tail).reshape(prod(lead), *tail)


def broadcast_lead(leads: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    """The leading dimensions to which those of all arguments broadcast."""
    try:
        return torch.broadcast_shapes(*leads.values())
    except RuntimeError:
        found = ", ".join(f"{name} {list(lead)}" for name, lead in leads.items())
        raise ValueError(f"leading dimensions must broadcast to each other, found {found}") from None


def with_columns(x: Tensor) -> Tensor:
    """``x [..., K]`` with a column of zeros if there are none, so that solvers always have columns to work on."""
    return x if x.shape[-1] else pad(x, (0, 1))


def compute_dtype(*tensors: Tensor) -> torch.dtype:
    """The widest dtype of the tensors, float32 at least."""
    dtype = torch.float32
    for x in tensors:
        dtype = torch.promote_types(dtype, x.dtype)
    return dtype


def without_autocast(x: Tensor) -> Any:
    """A context in which autocast is off on the device of ``x``."""
    device = x.device.type
    has_autocast = torch.amp.is_autocast_available(device)  # devices for tracing have none
    return (
        torch.autocast(device, enabled=False) if has_autocast and torch.is_autocast_enabled(device) else nullcontext()
    )
