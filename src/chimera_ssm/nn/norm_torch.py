"""The gated root mean square norm in PyTorch operations: the equation, and a version that saves only its inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.ops.autograd import double_backward_via, save_arguments
from chimera_ssm.ops.broadcasting import without_autocast

#: Added to the mean square by default, so that rows of zeros stay finite.
EPS = 1e-5


def rms_norm(x: Tensor, gate: Tensor | None, weight: Tensor, eps: float = EPS) -> Tensor:
    """``u = x · silu(gate)``, ``y = weight · u / √(mean(u²) + eps)``, in differentiable operations."""
    u = x if gate is None else x * F.silu(gate)
    return weight * u * (u.square().mean(-1, keepdim=True) + eps).rsqrt()


class GatedRMSNorm(torch.autograd.Function):
    """`rms_norm`; saves the inputs and the reciprocal root mean square of each row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor | None, weight: Tensor, eps: float = EPS) -> Tensor:
        u = x if gate is None else F.silu(gate).mul_(x)
        rate = (torch.linalg.vector_norm(u, dim=-1, keepdim=True).square_() / u.shape[-1] + eps).rsqrt_()
        save_arguments(ctx, (x, gate, weight, eps), rate)
        return (u * rate).mul_(weight)

    @staticmethod
    @double_backward_via(rms_norm)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, gate, weight, _, rate = ctx.saved_tensors
        (g,), opened = grads, None if gate is None else F.silu(gate)
        u = x if opened is None else x * opened
        product = g * u
        with without_autocast(x):
            along = product @ weight  # Σ_c weight_c g_c u_c of each row
            dweight = rate.flatten() @ product.reshape(-1, x.shape[-1])
        du = torch.mul(g, weight, out=product).mul_(rate)
        du.addcmul_(u, along.unsqueeze(-1) * rate**3, value=-1 / u.shape[-1])
        if gate is None or opened is None:
            return du, None, dweight, None
        dgate = torch.ops.aten.silu_backward(du * x, gate)
        return du.mul_(opened), dgate, dweight, None
