"""Whether Triton kernels can run: Triton is installed, and all tensors are on one GPU; or Triton's interpreter runs."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

from chimera_ssm.cpu.availability import kernels_are_disabled

#: What kernels load; they compute in float32.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


_assumed: ContextVar[bool] = ContextVar("chimera_gpu_is_assumed", default=False)


@contextmanager
def assume_gpu() -> Generator[None]:
    """Within this context everything is decided as on a GPU, whatever the device: to count work without one."""
    token = _assumed.set(True)
    try:
        yield
    finally:
        _assumed.reset(token)


@torch.compiler.assume_constant_result
def gpu_is_assumed() -> bool:
    """Whether this is within `assume_gpu`."""
    return _assumed.get()


def is_gpu(device: torch.device | str) -> bool:
    """Whether a device is a GPU for which there are kernels, or is taken for one."""
    return torch.device(device).type == "cuda" or gpu_is_assumed()


def can_use_triton(*tensors: Tensor | None) -> bool:
    """Whether Triton kernels can take these tensors.

    With the environment variable ``TRITON_INTERPRET=1``, set before Triton is imported, kernels run in Triton's
    interpreter, on a CPU. It is slow, and made for tests.
    """
    return (
        all(x is None or (_has_kernels(x.device) and x.dtype in DTYPES) for x in tensors)
        and triton_is_installed()
        and not kernels_are_disabled()
    )


def _has_kernels(device: torch.device) -> bool:
    return device.type == "cpu" if is_interpreted() else is_gpu(device)


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@lru_cache(maxsize=1)
def triton_is_installed() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None
