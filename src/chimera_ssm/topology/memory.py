"""How much memory a topology holds, with all that is known of it."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch


def nbytes(value: Any) -> int:
    """Bytes of the arrays and tensors that a value holds: in collections, plans, and topologies made of it.

    The parts of a union are not counted: they are topologies of their own, which others may hold as well.
    """
    total, waiting, seen = 0, [value], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (np.ndarray, torch.Tensor)):
            total += value.nbytes
        elif isinstance(value, dict):
            waiting += [held for key, held in list(value.items()) if key != "parts"]
        elif isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            waiting += value
        elif is_dataclass(value) or hasattr(value, "_kept"):
            waiting.append(vars(value))
    return total
