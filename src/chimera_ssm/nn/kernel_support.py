"""Whether the fused CPU kernels of layers can be used."""

import torch
from torch import Tensor

from chimera_ssm.cpu import availability
from chimera_ssm.ops.custom_ops import use_operators
from chimera_ssm.ops.plain import transformed


def can_use_kernels(*tensors: Tensor | None) -> bool:
    """Whether Numba kernels support these tensors; tools that trace or count operators see PyTorch's instead."""
    return not use_operators() and not transformed() and availability.can_use_kernels(*tensors)


def needs_plain_norm() -> bool:
    """Whether the norm is computed by PyTorch's operator: where a compiler fuses it or a tool transforms it."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or transformed()
