"""Whether Triton kernels can run: Triton is installed, and all tensors are on one GPU; or Triton's interpreter runs."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

from chimera_ssm.cpu.availability import kernels_are_disabled

#: What kernels load; they compute in float32.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def can_use_triton(*tensors: Tensor | None) -> bool:
    """Whether Triton kernels can take these tensors.

    With the environment variable ``TRITON_INTERPRET=1``, set before Triton is imported, kernels run in Triton's
    interpreter, on a CPU. It is slow, and made for tests.
    """
    device = "cpu" if is_interpreted() else "cuda"
    return (
        all(x is None or (x.device.type == device and x.dtype in DTYPES) for x in tensors)
        and triton_is_installed()
        and not kernels_are_disabled()
    )


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@lru_cache(maxsize=1)
def triton_is_installed() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None
