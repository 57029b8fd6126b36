"""S4D: a diagonal state space whose parameters do not depend on the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from chimera_lab.baselines.sequence import SequenceMixer, long_convolution
from chimera_ssm.nn import RMSNorm, no_weight_decay


class S4(SequenceMixer):
    """A gated diagonal state space model, bidirectional (S4D; Gu et al. 2022).

        u, z = projection(x)        out = projection(RMSNorm((k ∗ u + D u) · silu(z)))
        k_l = 2 Re Σ_n C_n (exp(Δ A_n) − 1)/A_n exp(l Δ A_n)

    for each channel, with conjugate pairs, zero-order hold and a separate C per direction: ``k_l`` is the weight of the
    node ``l ≥ 0`` steps before, a second kernel that of the node ``l + 1`` steps after.

    Args:
        dim: features of a node.
        state_size: N, real; N/2 conjugate pairs.
        expand: inner width in units of ``dim``.
        dt_min: smallest initial step Δ.
        dt_max: largest initial step.

    Shapes: ``x [..., T, dim]`` → ``[..., T, dim]``.
    """

    def __init__(self, dim: int, state_size: int = 64, expand: int = 2, dt_min: float = 0.001, dt_max: float = 0.1):
        super().__init__()
        if state_size < 2 or state_size % 2:
            raise ValueError(f"S4's states are conjugate pairs: state_size must be even, found {state_size}")
        self.width, self.dt_range = expand * dim, (dt_min, dt_max)
        pairs = state_size // 2
        self.in_proj = nn.Linear(dim, 2 * self.width, bias=False)
        self.log_step = nn.Parameter(torch.empty(self.width))
        self.log_decay = nn.Parameter(torch.empty(self.width, pairs))
        self.frequency = nn.Parameter(torch.empty(self.width, pairs))
        self.C = nn.Parameter(torch.empty(2, self.width, pairs, 2))  # direction, …, real and imaginary part
        self.D = nn.Parameter(torch.empty(self.width))
        self.norm = RMSNorm(self.width)
        self.out_proj = nn.Linear(self.width, dim, bias=False)
        no_weight_decay(self)
        self.reset_parameters()

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Parameters exempt from weight decay: those of the state space."""
        return [self.log_step, self.log_decay, self.frequency, self.D]

    def reset_parameters(self) -> None:
        """``A_n = −1/2 + iπn``, steps log-uniform in [dt_min, dt_max], C normal; submodules by their own methods."""
        for module in (self.in_proj, self.norm, self.out_proj):
            module.reset_parameters()
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """The state space: the parameters that do not belong to a submodule."""
        low, high = map(math.log, self.dt_range)
        nn.init.uniform_(self.log_step, low, high)
        nn.init.constant_(self.log_decay, math.log(0.5))
        nn.init.normal_(self.C, std=0.5**0.5)
        nn.init.ones_(self.D)
        with torch.no_grad():
            self.frequency.copy_(math.pi * torch.arange(self.frequency.shape[1], device=self.frequency.device))

    def mix(self, x: Tensor) -> Tensor:
        u, z = self.in_proj(x).chunk(2, dim=-1)
        y = long_convolution(u, self.kernel(x.shape[1])) + self.D * u
        return self.out_proj(self.norm(y, z).to(u.dtype))

    def kernel(self, length: int) -> Tensor:
        """At offsets 1 − length, …, length − 1, ``[width, 2·length − 1]``."""
        at_least = torch.promote_types(self.C.dtype, torch.float32)
        log_step, log_decay, frequency, C = (
            p.to(at_least) for p in (self.log_step, self.log_decay, self.frequency, self.C)
        )
        A = torch.complex(-log_decay.exp(), frequency)
        step = log_step.exp().unsqueeze(-1)
        weight = 2 * torch.view_as_complex(C) * torch.expm1(step * A) / A
        # exp(l Δ A) for l = r·block + c is a product, so that only 2√length powers of each state are stored.
        block = math.isqrt(length - 1) + 1
        power = torch.arange(block, device=A.device)
        columns = torch.exp((step * A).unsqueeze(-1) * power)
        rows = torch.exp((step * A).unsqueeze(-1) * (block * power))
        back, ahead = ((weight.unsqueeze(-1) * rows).mT @ columns).real.flatten(-2)[..., :length]
        return torch.cat([ahead[:, : length - 1].flip(-1), back], dim=-1)
