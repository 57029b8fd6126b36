"""Local convolutions along a topology: the interface, and the convolution over the in-neighbours of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.topology import Topology


class LocalConv(nn.Module, ABC):
    """A depthwise convolution along a topology, ``[Z, T, D]`` → ``[Z, T, D]``."""

    #: Number of nodes in the receptive field of a causal convolution, including the node itself.
    reach: int
    bias: nn.Parameter
    #: First channel whose initial bias is ``constant``; all biases are drawn if ``constant`` is ``None``.
    constant_from: int = 0
    constant: float | None = None

    @abstractmethod
    def reset_parameters(self) -> None:
        """Initialize the parameters."""

    def reset_own_parameters(self) -> None:
        """Initialize the parameters: there are no submodules."""
        self.reset_parameters()

    def _set_constant_biases(self) -> None:
        if self.constant is not None:
            with torch.no_grad():
                self.bias[self.constant_from :] = self.constant

    @abstractmethod
    def forward(self, x: Tensor, topology: Topology, activate: bool = False) -> Tensor:
        """Convolve features ``[Z, T, D]`` along the topology, followed by SiLU if ``activate``."""


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
