"""Whether compiled kernels can run: Numba is installed, and tensors are on the CPU in float32 or float64."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

_log = logging.getLogger("chimera_ssm")
_disabled: ContextVar[bool] = ContextVar("chimera_kernels_disabled", default=False)


@contextmanager
def disable_kernels() -> Generator[None]:
    """Within this context everything runs in plain PyTorch, as on a GPU; backward passes as well."""
    token = _disabled.set(True)
    try:
        yield
    finally:
        _disabled.reset(token)


def kernels_are_disabled() -> bool:
    """Whether this is within `disable_kernels`."""
    return _disabled.get()


def can_use_kernels(*tensors: Tensor | None) -> bool:
    """Whether compiled kernels can take these tensors."""
    return (
        not _disabled.get()
        and all(x is None or (x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)) for x in tensors)
        and _numba_is_installed()
    )


@lru_cache(maxsize=1)
def _numba_is_installed() -> bool:
    if find_spec("numba") is not None:
        return True
    _log.warning("numba is not installed: solvers run in plain PyTorch; pip install numba for compiled kernels")
    return False
