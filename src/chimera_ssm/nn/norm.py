"""Root mean square norm, with an optional gate, in few passes over memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Added to the mean square, so that rows of zeros stay finite.
EPS = 1e-5


class RMSNorm(nn.RMSNorm):
    """`nn.RMSNorm` over the last dimension, by `gated_rms_norm`."""

    def __init__(self, dim: int):
        super().__init__(dim, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        return gated_rms_norm(x, None, self.weight)


def gated_rms_norm(x: Tensor, gate: Tensor | None, weight: Tensor) -> Tensor:
    """Normalise each row, gated before.

        u = x · silu(gate)        y = weight · u / √(mean(u²) + eps)

    PyTorch's own is, on a CPU, a chain of operations each of which keeps its result for the backward pass. Here
    only ``x`` and ``gate`` are kept.

    Args:
        x: ``[..., D]``; the result has its dtype.
        gate: ``[..., D]``, or ``None`` for 1.
        weight: ``[D]``.
    """
    gate, weight = gate if gate is None else gate.to(x.dtype), weight.to(x.dtype)
    if torch.compiler.is_compiling() or x.dtype.itemsize < 4:  # fused by the compiler; wants higher precision inside
        return F.rms_norm(x if gate is None else x * F.silu(gate), (x.shape[-1],), weight, EPS)
    return _GatedRMSNorm.apply(x, gate, weight)


class _GatedRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor | None, weight: Tensor) -> Tensor:
        u = x if gate is None else F.silu(gate).mul_(x)
        rate = (torch.linalg.vector_norm(u, dim=-1, keepdim=True).square_() / u.shape[-1] + EPS).rsqrt_()
        ctx.save_for_backward(x, gate, weight, rate)
        return (u * rate).mul_(weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, gate, weight, rate = ctx.saved_tensors
        (g,), opened = grads, None if gate is None else F.silu(gate)
        u = x if opened is None else x * opened
        product = g * u
        with torch.autocast(x.device.type, enabled=False):
            along = product @ weight  # Σ_c weight_c g_c u_c of each row
            dweight = rate.flatten() @ product.reshape(-1, x.shape[-1])
        du = torch.mul(g, weight, out=product).mul_(rate)
        du.addcmul_(u, along.unsqueeze(-1) * rate**3, value=-1 / u.shape[-1])
        if gate is None or opened is None:
            return du, None, dweight
        dgate = torch.ops.aten.silu_backward(du * x, gate)
        return du.mul_(opened), dgate, dweight
