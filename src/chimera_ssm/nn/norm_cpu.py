"""The norm over the heads of a mixer in one pass over memory: autograd around the kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.nn import norm_kernels as kernels
from chimera_ssm.nn.norm_torch import rms_norm
from chimera_ssm.ops.autograd import arrays_of, double_backward_via, empty, flatten, save_arguments


def _head_norm(
    x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor, eps: float
) -> Tensor:
    x = x if V is None or skip is None else x + skip[:, None, None] * V
    return rms_norm(x.transpose(1, 2).flatten(2), gate, weight, eps)


class FusedHeadNorm(torch.autograd.Function):
    """`chimera_ssm.nn.norm.head_rms_norm`; saves only the inputs and the rate. Without skip, V is ``None``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor, eps: float
    ) -> Tensor:
        Z, H, T, P = x.shape
        y, rate = empty(Z, T, H * P, like=x), empty(Z, T, like=x)
        save_arguments(ctx, (x, V, skip, gate, weight, eps), rate)
        threads.run(kernels.forward, kernels.TASKS, *_arrays(x, V, skip, gate, weight), eps,
                    *arrays_of(y.view(-1), rate), work=8 * y.numel())  # fmt: skip
        return y

    @staticmethod
    @double_backward_via(_head_norm)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, V, skip, gate, weight, _, rate = ctx.saved_tensors
        dx, dV, dgate = (empty(0, like=x) if t is None else empty(*t.shape, like=x) for t in (x, V, gate))
        dskip, dweight = x.new_zeros(kernels.TASKS, x.shape[1], 16), x.new_zeros(kernels.TASKS, weight.numel())
        threads.run(kernels.backward, kernels.TASKS, *_arrays(x, V, skip, gate, weight),
                    *arrays_of(rate, *(t.flatten() for t in (grads[0], dx, dV, dskip, dgate, dweight))),
                    work=16 * x.numel())  # fmt: skip
        optional = (V, dV), (skip, dskip.sum((0, 2))), (gate, dgate)
        return dx, *(None if t is None else dt for t, dt in optional), dweight.sum(0), None


def _arrays(x: Tensor, V: Tensor | None, skip: Tensor | None, gate: Tensor | None, weight: Tensor) -> list[Any]:
    """Arguments of the kernels. Absent tensors are empty arrays of the same type, so that each kernel compiles once."""
    nothing = x.new_empty(0), (0, 0, 0)
    memory, strides = flatten(x.detach())
    memory_V, strides_V = nothing if V is None else flatten(V.detach())
    memory_gate, strides_gate = nothing if gate is None else flatten(gate.detach())
    skip = x.new_zeros(x.shape[1]) if skip is None else skip
    arrays = arrays_of(memory, memory_V, skip, memory_gate, weight)
    return [arrays[0], strides, arrays[1], strides_V, arrays[2], arrays[3], strides_gate[:2], arrays[4]]
