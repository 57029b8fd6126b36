"""Monarch Mixer: long convolutions along the nodes, block-diagonal matrices along the features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.baselines.hyena import HyenaFilter
from chimera_lab.baselines.sequence import SequenceMixer, long_convolution
from chimera_ssm.nn import RMSNorm, WindowConv
from chimera_ssm.topology import UndirectedLine


class M2(SequenceMixer):
    """A layer of Monarch Mixer as one mixer, bidirectional (Fu et al. 2023).

        q, k, v = conv(projection(x))        s = projection(q · (h ∗ (k · v) + D k · v)) + g ∗ x
        out = s + R₃ (gelu(R₁ u) · R₂ u),        u = norm(x + s)

    Filters ``h`` and ``g`` span all offsets; the matrices ``R`` are block-diagonal. Monarch matrices express both kinds
    of mixing; the convolutions are computed by FFT, the special case that the paper uses.

    Args:
        dim: features of a node.
        expand: half the width of the inner layer, in units of ``dim``.
        blocks: number of blocks on the diagonal of each ``R``.

    Shapes: ``x [..., T, dim]`` → ``[..., T, dim]``.
    """

    def __init__(self, dim: int, expand: int = 2, blocks: int = 4):
        super().__init__()
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.conv = WindowConv(3 * dim, width=3)
        self.filter, self.residual_filter = HyenaFilter(dim), HyenaFilter(dim)
        self.D = nn.Parameter(torch.empty(dim))
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.norm = RMSNorm(dim)
        width = 2 * expand * dim
        self.gate, self.up = BlockDiagonal(dim, width, blocks), BlockDiagonal(dim, width, blocks)
        self.down = BlockDiagonal(width, dim, blocks)
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """D = 1: the only parameter that does not belong to a submodule."""
        nn.init.ones_(self.D)

    def mix(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        q, k, v = self.conv(self.in_proj(x), UndirectedLine(T)).chunk(3, dim=-1)
        u = k * v
        y = q * (long_convolution(u, self.filter(T)) + self.D * u)
        s = self.out_proj(y.to(u.dtype))
        s = s + long_convolution(x, self.residual_filter(T)).to(s.dtype)
        u = self.norm(x + s)
        return s + self.down(F.gelu(self.gate(u)) * self.up(u))


class BlockDiagonal(nn.Module):
    """A linear layer with a block-diagonal matrix, ``[..., blocks · i]`` → ``[..., blocks · o]``.

    Args:
        inputs: features in.
        outputs: features out.
        blocks: number of blocks; divides both.
    """

    #: Models initialize the weight like that of `nn.Linear`.
    is_projection = True

    def __init__(self, inputs: int, outputs: int, blocks: int):
        super().__init__()
        if inputs % blocks or outputs % blocks:
            raise ValueError(f"{inputs} and {outputs} features must be multiples of the number of blocks, {blocks}")
        self.weight = nn.Parameter(torch.empty(blocks, inputs // blocks, outputs // blocks))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√(inputs of a block), as in `nn.Linear`."""
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply each block."""
        return torch.einsum("...bi,bio->...bo", x.unflatten(-1, (self.weight.shape[0], -1)), self.weight).flatten(-2)
