"""Local convolutions: what a node's features take from its immediate neighbours, channel by channel."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.nn import kernels
from chimera_ssm.ops.autograd import arrays_of, double_backward_via, empty, flatten, save_arguments
from chimera_ssm.topology import Batch, Topology

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class LocalConv(nn.Module, ABC):
    """A depthwise convolution along a topology, ``[Z, T, D]`` → ``[Z, T, D]``."""

    #: Nodes of a directed line, the last one included, that an output of a causal convolution sees.
    reach: int
    bias: nn.Parameter
    #: Channel from which on biases start with a common value, and that value; ``None`` draws all of them.
    constant_from: int = 0
    constant: float | None = None

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draw the parameters anew."""

    def _set_constant_biases(self) -> None:
        if self.constant is not None:
            with torch.no_grad():
                self.bias[self.constant_from :] = self.constant

    @abstractmethod
    def forward(self, x: Tensor, topology: Topology, activate: bool = False) -> Tensor:
        """Convolve features ``[Z, T, D]`` along the topology, followed by SiLU if ``activate``."""


class WindowConv(LocalConv):
    """A depthwise convolution over a window of a line or grid; packed parts do not see each other.

        y_t = bias + Σ_o weight_o ⊙ x_{t+o}

    Centred, or causal on a directed line: the window then reaches against the line's direction only.

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
        if activate and x.numel() and self.bias.numel() % 16 == 0 and kernels.usable(x):
            return _ActivatedWindow.apply(x, *self._taps(x), self._table(topology, x))
        # The parts of a batch, even of one, have their own shapes and directions.
        by_parts = isinstance(topology, Batch) or self.num_axes not in _CONV
        y = _gather(x, *self._taps(x), self._table(topology, x)) if by_parts else self._along(x, topology)
        return F.silu(y) if activate else y

    def _along(self, x: Tensor, topology: Topology) -> Tensor:
        backward = self.causal and getattr(topology, "reverse", False)
        x = x.flip(1) if backward else x
        y = self._convolve(x, _shape(topology))
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
        return topology.found(window_table, self.width, self.num_axes, self.causal, x.device)


def _half_on_cpu(x: Tensor) -> bool:
    """Kernels have 32 bits at least; PyTorch's depthwise ``conv3d`` in bfloat16 has gradients from unset memory."""
    return x.device.type == "cpu" and x.dtype in (torch.bfloat16, torch.float16)


def _gather(x: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
    """``bias + Σ_o weight_o ⊙ x_{table[o, t]}``, ``weight [taps, D]``."""
    padded, y = F.pad(x, (0, 0, 0, 1)), bias
    for nodes, tap in zip(table, weight, strict=True):
        y = y + tap * padded.index_select(1, nodes)
    return y


def _plain(x: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
    return F.silu(_gather(x, weight, bias, table))


class _ActivatedWindow(torch.autograd.Function):
    """``silu(bias + Σ_o weight_o ⊙ x_{table[o, t]})`` in one pass, ``weight [taps, D]``; only the inputs are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.nn.kernels import conv

        save_arguments(ctx, (x, weight, bias, table))
        y, (memory, strides) = empty(*x.shape, like=x), flatten(x.detach())
        work = y.numel() * len(table)
        blocks, size = _blocks(x.shape[2], work)
        pool.run(conv.forward, x.shape[0] * blocks, size, *arrays_of(table, memory), *strides,
                 *arrays_of(weight, bias, y), work=work)  # fmt: skip
        return y

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.nn.kernels import conv

        x, weight, bias, table = ctx.saved_tensors
        dx, dweight, dbias = empty(*x.shape, like=x), weight.new_zeros(weight.shape), torch.zeros_like(bias)
        memory, strides = flatten(x)
        work = 3 * dx.numel() * len(table)
        blocks, size = _blocks(x.shape[2], work)
        pool.run(conv.backward, blocks, size, *arrays_of(table, memory), *strides,
                 *arrays_of(weight, bias, grads[0], dx, dweight, dbias), work=work)  # fmt: skip
        return dx, dweight, dbias, None


def _blocks(channels: int, work: int) -> tuple[int, int]:
    """How many blocks of channels, equally many for each thread, and their size; no result depends on it."""
    from chimera_ssm.cpu.threads import threads_for
    from chimera_ssm.nn.kernels.conv import CHANNELS

    threads = threads_for(work)
    least = threads * -(-channels // (CHANNELS * threads))
    size = -(-channels // (16 * least)) * 16
    return -(-channels // size), size


def window_table(topology: Topology, width: int, num_axes: int, causal: bool, device: torch.device) -> Tensor:
    """Node that each place of a window holds for each node, T (zero) where there is none, ``[taps, T]``."""
    columns, start = [], 0
    for part in topology.parts:
        shape = np.array(_shape(part))
        backward = causal and getattr(part, "reverse", False)
        here = np.stack(np.unravel_index(np.arange(part.num_nodes), shape), axis=1)
        low = 1 - width if causal else -(width // 2)
        rows = []
        for offset in itertools.product(range(low, low + width), repeat=num_axes):
            there = here - offset if backward else here + offset
            inside = np.all((there >= 0) & (there < shape), axis=1)
            node = np.ravel_multi_index(tuple(np.where(inside[:, None], there, 0).T), tuple(shape))
            rows.append(np.where(inside, node + start, topology.num_nodes))
        columns.append(np.stack(rows))
        start += part.num_nodes
    return torch.from_numpy(np.concatenate(columns, axis=1)).to(device)


class NeighbourConv(LocalConv):
    """A convolution over the in-neighbours of any graph.

        y_i = bias + own ⊙ x_i + neighbour ⊙ Σ_{j→i} x_j

    Args:
        channels: D.

    Shapes: ``x [Z, T, D]`` → ``[Z, T, D]``.
    """

    reach = 2

    def __init__(self, channels: int):
        super().__init__()
        self.own = nn.Parameter(torch.empty(channels))
        self.neighbour = nn.Parameter(torch.empty(channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√2: a window of two, the node and its neighbourhood."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(2**-0.5), 2**-0.5)
        self._set_constant_biases()

    def forward(self, x: Tensor, topology: Topology, activate: bool = False) -> Tensor:
        source, target = topology.tensors("edge_index", x.device)
        by_node = x.transpose(0, 1)
        incoming = torch.zeros_like(by_node).index_add(0, target, by_node.index_select(0, source)).transpose(0, 1)
        own, neighbour, bias = (p.to(x.dtype) for p in (self.own, self.neighbour, self.bias))
        y = bias + own * x + neighbour * incoming
        return F.silu(y) if activate else y


def _shape(topology: Topology) -> tuple[int, ...]:
    return getattr(topology, "shape", (topology.num_nodes,))
