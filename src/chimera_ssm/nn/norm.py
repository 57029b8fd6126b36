"""Root mean square norms: of features, and of the heads of a mixer with skip connection and gate."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.nn.kernel_support import can_use_kernels, needs_plain_norm
from chimera_ssm.nn.norm_torch import EPS, GatedRMSNorm


class RMSNorm(nn.RMSNorm):
    """`nn.RMSNorm` over the last dimension, by `gated_rms_norm`."""

    def __init__(self, dim: int, eps: float = EPS):
        super().__init__(dim, eps=eps)

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        """Normalize ``x · silu(gate)``, ``[..., D]``."""
        return gated_rms_norm(x, gate, self.weight, EPS if self.eps is None else self.eps)


class HeadNorm(nn.Module):
    """The end of a mixer: skip connection, gate and norm over all heads.

        u = (x + D V) · silu(gate)        y = weight · u / √(mean(u²) + eps)

    D is a parameter of this module because transformers' ``Trainer`` exempts modules named "norm" from weight decay.

    Args:
        num_heads: H.
        dim: H·P.
        eps: added to the mean square.

    Shapes: ``x, V [Z, H, T, P]``, ``gate [Z, T, H·P]`` or ``None`` → ``[Z, T, H·P]``.
    """

    def __init__(self, num_heads: int, dim: int, eps: float = EPS):
        super().__init__()
        self.eps = eps
        self.D = nn.Parameter(torch.empty(num_heads))
        self.weight = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All ones."""
        nn.init.ones_(self.D)
        nn.init.ones_(self.weight)

    def reset_own_parameters(self) -> None:
        """All ones: there are no submodules."""
        self.reset_parameters()

    def forward(self, x: Tensor, V: Tensor, gate: Tensor | None = None) -> Tensor:
        return head_rms_norm(x, V, self.D, gate, self.weight, self.eps)


def gated_rms_norm(x: Tensor, gate: Tensor | None, weight: Tensor, eps: float = EPS) -> Tensor:
    """Gate and normalize each row.

        u = x · silu(gate)        y = weight · u / √(mean(u²) + eps)

    On a CPU, PyTorch's own norm is a chain of operations each of which saves its result for the backward pass. This
    one saves ``x`` and ``gate`` only.

    Args:
        x: ``[..., D]``; the result has its dtype.
        gate: ``[..., D]``, or ``None`` for 1.
        weight: ``[D]``.
        eps: added to the mean square.
    """
    gate, weight = gate if gate is None else gate.to(x.dtype), weight.to(x.dtype)
    # Half precision needs the internal float32 of PyTorch's norm.
    if needs_plain_norm() or x.dtype.itemsize < 4:
        return F.rms_norm(x if gate is None else x * F.silu(gate), (x.shape[-1],), weight, eps)
    if _kernels_support(x, gate, weight):
        rows = None if gate is None else gate.reshape(1, -1, gate.shape[-1])
        return _head_norm_cpu(x.reshape(1, 1, -1, x.shape[-1]), None, None, rows, weight, eps).view(x.shape)
    return GatedRMSNorm.apply(x, gate, weight, eps)


def head_rms_norm(x: Tensor, V: Tensor, skip: Tensor, gate: Tensor | None, weight: Tensor, eps: float = EPS) -> Tensor:
    """`gated_rms_norm` of the rows ``x + skip V``, each of which is the concatenation of a node's heads.

    Args:
        x: ``[Z, H, T, P]``.
        V: ``[Z, H, T, P]``.
        skip: ``[H]``.
        gate: ``[Z, T, H·P]``, or ``None`` for 1.
        weight: ``[H·P]``.
        eps: added to the mean square.

    Returns:
        ``[Z, T, H·P]``.
    """
    if x.dtype == V.dtype and _kernels_support(x, gate, weight):
        gate = None if gate is None else gate.to(x.dtype)
        return _head_norm_cpu(x, V, skip.to(x.dtype), gate, weight.to(x.dtype), eps)
    rows = (skip[:, None] * V.transpose(1, 2) + x.transpose(1, 2)).flatten(2)
    return gated_rms_norm(rows, gate, weight, eps)


def _kernels_support(x: Tensor, gate: Tensor | None, weight: Tensor) -> bool:
    return x.numel() > 0 and x.shape[-1] % 16 == 0 and can_use_kernels(x, gate, weight)


def _head_norm_cpu(
    x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor, eps: float = EPS
) -> Tensor:
    from chimera_ssm.nn.norm_cpu import FusedHeadNorm  # Numba is optional and slow to load

    return FusedHeadNorm.apply(x, V, skip, gate, weight, eps)
