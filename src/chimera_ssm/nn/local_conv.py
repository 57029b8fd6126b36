"""Local convolutions along a topology: the interface, and the convolution over the in-neighbours of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.adjacency.steps import sum_at
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

        y_i = bias + own ⊙ x_i + neighbour ⊙ Σ_{j→i} w_ij x_j
        y_i = bias + own ⊙ x_i + neighbour ⊙ (x_i + Σ_{j→i} w_ij x_j) / (1 + Σ_{j→i} w_ij)        (aggregate="mean")

    Args:
        channels: D.
        aggregate: ``"sum"`` over the neighbours, or ``"mean"`` over the node and its neighbours; the channels before
            `constant_from` then start as this mean.

    Shapes: ``x [Z, T, D]``, edge weights ``w [Z, E]`` or ``[1, E]``, 1 if omitted → ``[Z, T, D]``.
    """

    reach = 2

    def __init__(self, channels: int, aggregate: str = "sum"):
        super().__init__()
        self.aggregate = aggregate
        self.own = nn.Parameter(torch.empty(channels))
        self.neighbour = nn.Parameter(torch.empty(channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√2: a window of two, the node and its neighbourhood."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(2**-0.5), 2**-0.5)
        self._set_constant_biases()
        if self.aggregate == "mean":
            with torch.no_grad():
                for parameter, value in ((self.own, 0), (self.neighbour, 1), (self.bias, 0)):
                    parameter[: self.constant_from] = value

    def forward(
        self, x: Tensor, topology: Topology, activate: bool = False, edge_weight: Tensor | None = None
    ) -> Tensor:
        incoming = (neighbour_mean if self.aggregate == "mean" else neighbour_sum)(x, topology, edge_weight)
        own, neighbour, bias = (p.to(x.dtype) for p in (self.own, self.neighbour, self.bias))
        y = bias + own * x + neighbour * incoming
        return F.silu(y) if activate else y


def neighbour_sum(x: Tensor, topology: Topology, edge_weight: Tensor | None = None) -> Tensor:
    """``Σ_{j→i} w_ij x_j``, ``[Z, T, D]``; edge weights ``[Z, E]`` or ``[1, E]``."""
    source, target = topology.tensors("edge_index", x.device)
    by_node = x.transpose(0, 1)
    messages = by_node.index_select(0, source)
    if edge_weight is not None:
        messages = messages * edge_weight.to(x.dtype).mT.unsqueeze(-1)
    return torch.zeros_like(by_node).index_add(0, target, messages).transpose(0, 1)


def normalized_sum(x: Tensor, topology: Topology, edge_weight: Tensor | None = None) -> Tensor:
    """``x_i / d_i + Σ_{j→i} w_ij x_j / √(d_i d_j)``, with ``d_i = 1 + Σ_{j→i} w_ij``, ``[Z, T, D]``."""
    scale = _degrees(x, topology, edge_weight).rsqrt()
    x = scale * x
    return scale * (x + neighbour_sum(x, topology, edge_weight))


def neighbour_mean(x: Tensor, topology: Topology, edge_weight: Tensor | None = None) -> Tensor:
    """``(x_i + Σ_{j→i} w_ij x_j) / (1 + Σ_{j→i} w_ij)``, ``[Z, T, D]``."""
    return (x + neighbour_sum(x, topology, edge_weight)) / _degrees(x, topology, edge_weight)


def _degrees(x: Tensor, topology: Topology, edge_weight: Tensor | None) -> Tensor:
    """``1 + Σ_{j→i} w_ij``, ``[Z, T, 1]`` or ``[1, T, 1]``."""
    _, target = topology.tensors("edge_index", x.device)
    weight = x.new_ones(1, topology.num_edges) if edge_weight is None else edge_weight.to(x.dtype)
    return (1 + sum_at(weight, target, topology.num_nodes)).unsqueeze(-1)
