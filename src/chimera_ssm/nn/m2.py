"""Monarch Mixer, a baseline: long convolutions along the nodes, block-diagonal matrices along the features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.nn.conv import WindowConv
from chimera_ssm.nn.hyena import HyenaFilter
from chimera_ssm.nn.mlp_mixer import BlockDiagonal
from chimera_ssm.nn.norm import RMSNorm
from chimera_ssm.nn.sequence import SequenceMixer, line, long_convolution


class M2(SequenceMixer):
    """A layer of Monarch Mixer as one mixer, read both ways (Fu et al. 2023).

        q, k, v = conv(projection(x))        s = projection(q · (h ∗ (k · v) + D k · v)) + g ∗ x
        out = s + R₃ (gelu(R₁ u) · R₂ u),        u = norm(x + s)

    Filters ``h`` and ``g`` reach over all offsets; ``R`` are block-diagonal. Monarch matrices compute both kinds of
    mixing; here convolutions go by FFT, which is the special case that is used.

    Args:
        dim: features of a node.
        expand: half the width of the inner layer, in units of ``dim``.
        blocks: on the diagonal of each ``R``.

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
        """D alone: 1."""
        nn.init.ones_(self.D)

    def mix(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        q, k, v = self.conv(self.in_proj(x), line(T)).chunk(3, dim=-1)
        u = k * v
        y = q * (long_convolution(u, self.filter(T)) + self.D * u)
        s = self.out_proj(y.to(u.dtype))
        s = s + long_convolution(x, self.residual_filter(T)).to(s.dtype)
        u = self.norm(x + s)
        return s + self.down(F.gelu(self.gate(u)) * self.up(u))
