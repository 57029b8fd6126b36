"""Hyena: gated long convolutions whose filters are functions of the offset."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.baselines.sequence import SequenceMixer, long_convolution
from chimera_ssm.nn import RMSNorm, WindowConv
from chimera_ssm.topology import UndirectedLine


class Hyena(SequenceMixer):
    """The Hyena operator of order two, bidirectional (Poli et al. 2023).

        q, k, v = conv(projection(x))        u = k · v
        out = projection(RMSNorm(q · (h ∗ u + D u)))

    with a filter ``h`` over all offsets, positive and negative.

    Args:
        dim: features of a node.
        expand: inner width in units of ``dim``.

    Shapes: ``x [..., T, dim]`` → ``[..., T, dim]``.
    """

    def __init__(self, dim: int, expand: int = 2):
        super().__init__()
        self.width = expand * dim
        self.in_proj = nn.Linear(dim, 3 * self.width, bias=False)
        self.conv = WindowConv(3 * self.width, width=3)
        self.filter = HyenaFilter(self.width)
        self.D = nn.Parameter(torch.empty(self.width))
        self.norm = RMSNorm(self.width)
        self.out_proj = nn.Linear(self.width, dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """D = 1; submodules by their own methods."""
        for module in (self.in_proj, self.conv, self.filter, self.norm, self.out_proj):
            module.reset_parameters()
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """D = 1: the only parameter that does not belong to a submodule."""
        nn.init.ones_(self.D)

    def mix(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        q, k, v = self.conv(self.in_proj(x), UndirectedLine(T)).chunk(3, dim=-1)
        u = k * v
        y = q * (long_convolution(u, self.filter(T)) + self.D * u)
        return self.out_proj(self.norm(y).to(u.dtype))


class HyenaFilter(nn.Module):
    """A filter for each channel, a small network of the offset under an exponential window.

        h(t) = exp(−α |t|) · W₃ sin(W₂ sin(W₁ φ(t) + b₁) + b₂),        φ(t) = (t, cos 2πft, sin 2πft, …)

    The offset ``t`` is in units of the sequence length: on a longer sequence the filter is stretched, like position
    embeddings. The rates ``α`` increase with the channel, so that the window decays to 1/100 at 1.5 to 0.3 lengths.

    Args:
        channels: D.
        bands: frequencies f = 1, 2, ….
        hidden: width of the network.

    Shapes: a length T → ``[D, 2T − 1]``, at offsets 1 − T, …, T − 1.
    """

    def __init__(self, channels: int, bands: int = 16, hidden: int = 64):
        super().__init__()
        self.bands = bands
        self.first = nn.Parameter(torch.empty(hidden, 2 * bands + 1))
        self.first_bias = nn.Parameter(torch.empty(hidden))
        self.second = nn.Parameter(torch.empty(hidden, hidden))
        self.second_bias = nn.Parameter(torch.empty(hidden))
        self.last = nn.Parameter(torch.empty(channels, hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√(inputs), as in `nn.Linear`."""
        for weight, bias in ((self.first, self.first_bias), (self.second, self.second_bias), (self.last, None)):
            bound = weight.shape[1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)
            if bias is not None:
                nn.init.uniform_(bias, -bound, bound)

    def reset_own_parameters(self) -> None:
        """Initialize the parameters: there are no submodules."""
        self.reset_parameters()

    def forward(self, length: int) -> Tensor:
        """The filter at all offsets, in float32 at least."""
        dtype, device = torch.promote_types(self.last.dtype, torch.float32), self.last.device
        first, first_bias, second, second_bias, last = (p.to(dtype) for p in self.parameters())
        t = torch.arange(1 - length, length, device=device, dtype=dtype).unsqueeze(-1) / length
        angle = 2 * math.pi * t * torch.arange(1, self.bands + 1, device=device)
        with torch.autocast(device.type, enabled=False):
            hidden = torch.sin(F.linear(torch.cat([t, angle.cos(), angle.sin()], dim=-1), first, first_bias))
            filters = F.linear(torch.sin(F.linear(hidden, second, second_bias)), last).mT
        rate = math.log(100) / torch.linspace(1.5, 0.3, last.shape[0], device=device, dtype=dtype)
        return filters * torch.exp(-rate.unsqueeze(-1) * t.abs().mT)
