"""`WindowConv`: a depthwise convolution over a window of a line or grid."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.gpu.availability import gpu_is_assumed
from chimera_ssm.nn.kernel_support import can_use_kernels
from chimera_ssm.nn.local_conv import LocalConv
from chimera_ssm.nn.window_gather import gather_convolution, shape_of, window_table
from chimera_ssm.topology import Batch, Topology

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class WindowConv(LocalConv):
    """A depthwise convolution over a window of a line or grid; the parts of a batch do not mix.

        y_t = bias + Σ_o weight_o ⊙ x_{t+o}

    The window is centred, or causal on a directed line: it then contains only the node and its predecessors.

    Args:
        channels: D.
        width: nodes along each axis of the window.
        num_axes: axes of the topology.
        causal: only for one axis.

    Shapes: ``x [Z, T, D]`` → ``[Z, T, D]``.
    """

    def __init__(self, channels: int, width: int, num_axes: int = 1, causal: bool = False):
        super().__init__()
        self.width, self.num_axes, self.causal, self.reach = width, num_axes, causal, width
        self.weight = nn.Parameter(torch.empty(channels, *[width] * num_axes))
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√(size of the window)."""
        bound = prod(self.weight.shape[1:]) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)
        self._set_constant_biases()

    def forward(self, x: Tensor, topology: Topology, activate: bool = False) -> Tensor:
        if _half_on_cpu(x):
            with torch.autocast("cpu", enabled=False):
                return self.forward(x.float(), topology, activate).to(x.dtype)
        if activate and x.numel() and self.bias.numel() % 16 == 0 and can_use_kernels(x):
            from chimera_ssm.nn.window_conv_cpu import ActivatedWindow  # Numba is optional and slow to load

            return ActivatedWindow.apply(x, *self._taps(x), self._table(topology, x))
        # Each part of a batch, even of a batch of one, has its own shape and direction.
        by_parts = isinstance(topology, Batch) or self.num_axes not in _CONV
        y = gather_convolution(x, *self._taps(x), self._table(topology, x)) if by_parts else self._along(x, topology)
        return F.silu(y) if activate else y

    def _along(self, x: Tensor, topology: Topology) -> Tensor:
        backward = self.causal and getattr(topology, "reverse", False)
        x = x.flip(1) if backward else x
        y = self._convolve(x, shape_of(topology))
        return y.flip(1) if backward else y

    def _convolve(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        grid = x.mT.unflatten(-1, shape)
        if self.causal:
            grid = F.pad(grid, (self.width - 1, 0))
        padding = 0 if self.causal else self.width // 2
        weight, bias = self.weight.unsqueeze(1).to(x.dtype), self.bias.to(x.dtype)
        y = _CONV[self.num_axes](grid, weight, bias, padding=padding, groups=x.shape[-1])
        return y.flatten(2).mT

    def _taps(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights ``[taps, D]`` and bias in the precision of ``x``."""
        return self.weight.flatten(1).t().to(x.dtype), self.bias.to(x.dtype)

    def _table(self, topology: Topology, x: Tensor) -> Tensor:
        return topology.cached(window_table, self.width, self.num_axes, self.causal, x.device)


def _half_on_cpu(x: Tensor) -> bool:
    """Kernels need at least 32 bits; gradients of PyTorch's depthwise ``conv3d`` in bfloat16 read unset memory."""
    return x.device.type == "cpu" and not gpu_is_assumed() and x.dtype in (torch.bfloat16, torch.float16)
