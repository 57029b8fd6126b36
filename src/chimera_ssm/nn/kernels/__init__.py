"""Numba kernels of layers, for CPUs: chains of operations on each number in one pass over memory."""

from torch import Tensor

from chimera_ssm.ops import compiled
from chimera_ssm.ops import custom_ops as operators


def usable(*tensors: Tensor | None) -> bool:
    """Whether kernels can take these tensors, and nobody wants to see operators of PyTorch instead."""
    return not operators.wanted() and compiled.usable(*tensors)
