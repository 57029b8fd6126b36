"""Numba kernels of layers, for CPUs: chains of operations on each number in one pass over memory."""

from torch import Tensor

from chimera_ssm.cpu.availability import can_use_kernels
from chimera_ssm.ops.custom_ops import use_operators


def usable(*tensors: Tensor | None) -> bool:
    """Whether kernels can take these tensors, and nobody wants to see operators of PyTorch instead."""
    return not use_operators() and can_use_kernels(*tensors)
