"""Launching Triton kernels: as operators that `torch.compile` traces, in Triton's interpreter, or recorded."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple

from torch.library import triton_op, wrap_triton

from chimera_ssm.gpu.availability import is_interpreted


class Launch(NamedTuple):
    """A launch that was recorded.

    Attributes:
        kernel: a function decorated by ``triton.jit``.
        grid: number of programs in each dimension.
        args: positional arguments.
        constants: arguments by name, and options of the compiler.
    """

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]


_recorded: ContextVar[list[Launch] | None] = ContextVar("chimera_recorded_launches", default=None)


@contextmanager
def recorded_launches() -> Generator[list[Launch]]:
    """Within this context kernels are listed instead of launched; results are undefined. Tensors may be on ``meta``."""
    launches: list[Launch] = []
    token = _recorded.set(launches)
    try:
        yield launches
    finally:
        _recorded.reset(token)


def triton_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator ``chimera_ssm::<name>`` of a function of tensors that launches kernels.

    While launches are recorded, the function itself is called, so that the operations of PyTorch within it can be seen.
    """
    if is_interpreted():
        return function
    operator = triton_op(f"chimera_ssm::{function.__name__}", function, mutates_args=())  # ty: ignore[missing-attribute]

    @wraps(function)
    def call(*args: Any) -> Any:
        return (operator if _recorded.get() is None else function)(*args)

    return call


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a kernel; nothing happens if the grid is empty."""
    if 0 in grid:
        return
    if (launches := _recorded.get()) is not None:
        launches.append(Launch(kernel, grid, args, constants))
    else:
        (kernel if is_interpreted() else wrap_triton(kernel))[grid](*args, **constants)
