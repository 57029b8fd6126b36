"""Whether the fused CPU kernels of layers can be used."""

from torch import Tensor

from chimera_ssm.cpu import availability
from chimera_ssm.ops.custom_ops import use_operators


def can_use_kernels(*tensors: Tensor | None) -> bool:
    """Whether Numba kernels support these tensors; tools that trace or count operators see PyTorch's instead."""
    return not use_operators() and availability.can_use_kernels(*tensors)
