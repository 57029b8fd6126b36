"""Arrays and tensors inside nested values: their size, and moving them to a device."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch


def nbytes(value: Any) -> int:
    """Bytes of the arrays, tensors and strings in a value: in collections, plans, and topologies derived from it.

    The parts of a union are not counted, because they have cache entries themselves.
    """
    total, waiting, seen = 0, [value], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (np.ndarray, torch.Tensor)):
            total += value.nbytes
        elif isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            waiting += [held for key, held in list(value.items()) if key != "_parts"]
        elif isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            waiting += value
        elif not isinstance(value, type) and (is_dataclass(value) or "_entry" in getattr(value, "__dict__", ())):
            waiting.append(vars(value))
    return total


def on_device(value: Any, device: torch.device) -> Any:
    """Integer arrays as tensors on ``device``, also within plans and tuples of them."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value)).to(device)
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(on_device(v, device) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(on_device(getattr(value, field.name), device) for field in fields(value)))
    return value
