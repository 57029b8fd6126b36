"""Matching of parameter counts: the width with which a model has a given number of parameters."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any


def matching_width(count: Callable[[int], int], target: int, step: int, what: str) -> int:
    """The width with which a model has ``target`` parameters, within 3 %.

    Args:
        count: number of parameters as an increasing function of the width.
        target: number of parameters.
        step: the width is a multiple of this.
        what: name of the model, for messages.
    """
    low, high = 0, 1  # count(low · step) ≤ target < count(high · step)
    while count(high * step) <= target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle * step) <= target else (low, middle)
    best = min((n * step for n in (low, high) if n > 0), key=lambda width: abs(count(width) - target))
    if abs(count(best) - target) > 0.03 * target:
        raise ValueError(
            f"no width gives {what} {target:,} parameters within 3 %: the nearest, {best}, has {count(best):,} "
            f"(widths are multiples of {step}, to keep heads whole); change num_heads, the depth or the target"
        )
    return best


def chimera_step(num_heads: int | None = None, expand: int = 2, head_size: int = 64, **_: Any) -> int:
    """The smallest ``step`` for which Chimera's inner width is divisible by its number of heads."""
    heads = head_size if num_heads is None else num_heads
    return heads // gcd(heads, expand)
