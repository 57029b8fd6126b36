"""The base of baseline mixers that ignore the topology: nodes are a sequence in node order."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.topology import Topology


class SequenceMixer(nn.Module, ABC):
    """A bidirectional mixer along the nodes in their order, called like `Chimera`; parts of a batch do not mix.

    Shapes: ``x [..., T, dim]`` → ``[..., T, dim]``.
    """

    @abstractmethod
    def mix(self, x: Tensor) -> Tensor:
        """Mix one sequence, ``[Z, T, dim]`` → ``[Z, T, dim]``."""

    def forward(
        self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None, node_mask: Tensor | None = None
    ) -> Tensor:
        """Mix features ``[..., T, dim]``; only the number of nodes of each part of the topology is used.

        Nodes where ``node_mask`` is False are removed before mixing; their outputs are zero.
        """
        if edge_attr is not None:
            raise ValueError(f"{type(self).__name__} reads nodes as a sequence: leave edge_attr out")
        if x.shape[-2] != topology.num_nodes:
            raise ValueError(f"x must have a row for each node of {topology!r}, found {list(x.shape)}")
        sizes = [part.num_nodes for part in topology.parts]
        parts = x.reshape(-1, *x.shape[-2:]).split(sizes, dim=1)
        if node_mask is None:
            mixed = [self.mix(part) for part in parts]
        else:
            masks = node_mask.expand(x.shape[:-1]).reshape(-1, x.shape[-2]).split(sizes, dim=1)
            mixed = [self._mix_present(part, mask) for part, mask in zip(parts, masks, strict=True)]
        return torch.cat(mixed, dim=1).reshape(x.shape)

    def _mix_present(self, x: Tensor, present: Tensor) -> Tensor:
        """Mix sequences ``[Z, T, dim]`` without their absent nodes, grouped by length; zero elsewhere."""
        y, lengths = torch.zeros_like(x), present.sum(dim=1)
        for length in lengths.unique().tolist():
            if length:
                here = present & (lengths == length).unsqueeze(1)
                mixed = self.mix(x[here].unflatten(0, (-1, length)))
                y = y.masked_scatter(here.unsqueeze(-1), mixed.to(y.dtype))
        return y


def long_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """A depthwise convolution over all offsets, by FFT.

        y_t = Σ_s kernel_{t−s} x_s

    Args:
        x: ``[Z, T, D]``.
        kernel: at offsets 1 − T, …, T − 1, ``[D, 2T − 1]``, in float32 at least.

    Returns:
        ``[Z, T, D]`` in the precision of the kernel.
    """
    T = x.shape[1]
    circular = F.pad(kernel, (0, 1)).roll(1 - T, dims=-1)
    spectrum = torch.fft.rfft(x.mT.to(kernel.dtype), n=2 * T) * torch.fft.rfft(circular)
    return torch.fft.irfft(spectrum, n=2 * T)[..., :T].mT
