"""Checking of values, off by default because it costs a pass over the data."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_checking: ContextVar[bool] = ContextVar("chimera_checking", default=False)


@contextmanager
def checking(enabled: bool = True) -> Generator[None]:
    """Within this context every verb, layers' included, refuses values that are not finite; compiled functions do not.

    Example:
        >>> with chimera_ssm.checking():
        ...     y = model(x, topology)
    """
    token = _checking.set(enabled)
    try:
        yield
    finally:
        _checking.reset(token)


def _is_on() -> bool:
    return not torch.compiler.is_compiling() and _checking.get()


def check_finite(name: str, value: Tensor, remedy: str) -> None:
    """Raise if checking is on and ``value`` holds a NaN or an infinity; say where the first one is."""
    if not _is_on():
        return
    bad = ~torch.isfinite(value)
    if bad.any():
        place = bad.nonzero()[0].tolist()
        raise ValueError(
            f"{name} is not finite: {int(bad.sum()):,} of {value.numel():,} values, the first at {place}, "
            f"is {value[tuple(place)].item()}; {remedy}"
        )


def check_all_finite(values: Mapping[str, Sequence[Tensor | None]], remedy: str) -> None:
    """`check_finite` for tensors by name."""
    if _is_on():
        for name, tensors in values.items():
            for x in tensors:
                if x is not None:
                    check_finite(name, x, remedy)
