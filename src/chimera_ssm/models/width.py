"""Models of equal size: the width that gives a number of parameters."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, sqrt
from typing import Any


def matching_width(count: Callable[[int], int], target: int, step: int, what: str) -> int:
    """The width with which a model has ``target`` parameters, within 3 %.

    Args:
        count: parameters of the model with a width; grows with it.
        target: number of parameters.
        step: widths are multiples of this.
        what: the model, for messages.
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
    """Widths that keep Chimera's heads whole are multiples of this."""
    heads = head_size if num_heads is None else num_heads
    return heads // gcd(heads, expand)


def initial_range(config: Any) -> float:
    """Deviation of the initial weights of a Transformer as wide as ``config``: the usual 0.02 is for 768 features.

    With 48 it would make queries, keys and values so small that little is learned for hundreds of steps. The paper has
    0.02 at any width.
    """
    if config.init == "paper":
        return config.initializer_range
    return config.initializer_range * sqrt(768 / config.hidden_size)
