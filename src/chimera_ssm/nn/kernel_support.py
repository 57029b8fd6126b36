"""Whether the fused CPU kernels of layers can be used."""

from torch import Tensor

from chimera_ssm.ops import compiled, custom_ops


def can_use_kernels(*tensors: Tensor | None) -> bool:
    """Whether Numba kernels support these tensors; tools that trace or count operators see PyTorch's instead."""
    return not custom_ops.wanted() and compiled.usable(*tensors)
