"""Root mean square norm, with an optional gate, in few passes over memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.nn import kernels
from chimera_ssm.ops.autograd import arrays_of, double_backward_via, empty, flatten, save_arguments

#: Added to the mean square, so that rows of zeros stay finite.
EPS = 1e-5


class RMSNorm(nn.RMSNorm):
    """`nn.RMSNorm` over the last dimension, by `gated_rms_norm`."""

    def __init__(self, dim: int):
        super().__init__(dim, eps=EPS)

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        """Normalize ``x · silu(gate)``, ``[..., D]``."""
        return gated_rms_norm(x, gate, self.weight)


class HeadNorm(nn.Module):
    """The end of a mixer: skip connection, gate and norm over all heads.

        u = (x + D V) · silu(gate)        y = weight · u / √(mean(u²) + eps)

    D is a parameter of this module, whose name exempts it from weight decay in transformers' ``Trainer``.

    Args:
        num_heads: H.
        dim: H·P.

    Shapes: ``x, V [Z, H, T, P]``, ``gate [Z, T, H·P]`` or ``None`` → ``[Z, T, H·P]``.
    """

    def __init__(self, num_heads: int, dim: int):
        super().__init__()
        self.D = nn.Parameter(torch.empty(num_heads))
        self.weight = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All ones."""
        nn.init.ones_(self.D)
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor, V: Tensor, gate: Tensor | None = None) -> Tensor:
        return head_rms_norm(x, V, self.D, gate, self.weight)


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
    if _by_kernel(x, gate, weight):
        rows = None if gate is None else gate.reshape(1, -1, gate.shape[-1])
        return _HeadNorm.apply(x.reshape(1, 1, -1, x.shape[-1]), None, None, rows, weight).view(x.shape)
    return _GatedRMSNorm.apply(x, gate, weight)


def head_rms_norm(x: Tensor, V: Tensor, skip: Tensor, gate: Tensor | None, weight: Tensor) -> Tensor:
    """Heads side by side as rows, with what skips them, by `gated_rms_norm`: ``(x + skip V)`` gated and normalised.

    Args:
        x: ``[Z, H, T, P]``.
        V: ``[Z, H, T, P]``.
        skip: ``[H]``.
        gate: ``[Z, T, H·P]``, or ``None`` for 1.
        weight: ``[H·P]``.

    Returns:
        ``[Z, T, H·P]``.
    """
    if x.dtype == V.dtype and _by_kernel(x, gate, weight):
        gate = None if gate is None else gate.to(x.dtype)
        return _HeadNorm.apply(x, V, skip.to(x.dtype), gate, weight.to(x.dtype))
    rows = (skip[:, None] * V.transpose(1, 2) + x.transpose(1, 2)).flatten(2)
    return gated_rms_norm(rows, gate, weight)


def _by_kernel(x: Tensor, gate: Tensor | None, weight: Tensor) -> bool:
    return x.numel() > 0 and x.shape[-1] % 16 == 0 and kernels.usable(x, gate, weight)


def _plain(x: Tensor, gate: Tensor | None, weight: Tensor) -> Tensor:
    u = x if gate is None else x * F.silu(gate)
    return weight * u * (u.square().mean(-1, keepdim=True) + EPS).rsqrt()


def _plain_heads(x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor) -> Tensor:
    x = x if V is None or skip is None else x + skip[:, None, None] * V
    return _plain(x.transpose(1, 2).flatten(2), gate, weight)


class _HeadNorm(torch.autograd.Function):
    """`head_rms_norm` in one pass; only the inputs are kept. Without skip, V is ``None``, too."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor
    ) -> Tensor:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.nn.kernels import norm

        Z, H, T, P = x.shape
        y, rate = empty(Z, T, H * P, like=x), empty(Z, T, like=x)
        save_arguments(ctx, (x, V, skip, gate, weight), rate)
        pool.run(norm.forward, norm.TASKS, *_arrays(x, V, skip, gate, weight), EPS, *arrays_of(y.view(-1), rate),
                 work=8 * y.numel())  # fmt: skip
        return y

    @staticmethod
    @double_backward_via(_plain_heads)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.nn.kernels import norm

        x, V, skip, gate, weight, rate = ctx.saved_tensors
        dx, dV, dgate = (empty(0, like=x) if t is None else empty(*t.shape, like=x) for t in (x, V, gate))
        dskip, dweight = x.new_zeros(norm.TASKS, x.shape[1], 16), x.new_zeros(norm.TASKS, weight.numel())
        pool.run(norm.backward, norm.TASKS, *_arrays(x, V, skip, gate, weight),
                 *arrays_of(rate, *(t.flatten() for t in (grads[0], dx, dV, dskip, dgate, dweight))),
                 work=16 * x.numel())  # fmt: skip
        found = (V, dV), (skip, dskip.sum((0, 2))), (gate, dgate)
        return dx, *(None if t is None else dt for t, dt in found), dweight.sum(0)


def _arrays(x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor) -> list[Any]:
    """Arrays and strides as the kernels want them, of one type whatever is there: each is compiled once."""
    nothing = x.new_empty(0), (0, 0, 0)
    memory, strides = flatten(x.detach())
    memory_V, strides_V = nothing if V is None else flatten(V.detach())
    memory_gate, strides_gate = nothing if gate is None else flatten(gate.detach())
    skip = x.new_zeros(x.shape[1]) if skip is None else skip
    arrays = arrays_of(memory, memory_V, skip, memory_gate, weight)
    return [arrays[0], strides, arrays[1], strides_V, arrays[2], arrays[3], strides_gate[:2], arrays[4]]


class _GatedRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor | None, weight: Tensor) -> Tensor:
        u = x if gate is None else F.silu(gate).mul_(x)
        rate = (torch.linalg.vector_norm(u, dim=-1, keepdim=True).square_() / u.shape[-1] + EPS).rsqrt_()
        save_arguments(ctx, (x, gate, weight), rate)
        return (u * rate).mul_(weight)

    @staticmethod
    @double_backward_via(_plain)
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
