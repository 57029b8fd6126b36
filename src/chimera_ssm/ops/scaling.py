"""``β V`` as one tensor, in memory of the workspace."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.ops.autograd import double_backward_via, empty_like, save_arguments


def scale_rows(scale: Tensor, V: Tensor) -> Tensor:
    """``β V``: scale ``[Z, H, T]``, ``V [Z, H, T, P]``."""
    return _Scaled.apply(scale, V)


def _plain(scale: Tensor, V: Tensor) -> Tensor:
    return scale.unsqueeze(-1) * V


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scale: Tensor, V: Tensor) -> Tensor:
        save_arguments(ctx, (scale, V))
        return torch.mul(scale.unsqueeze(-1), V, out=empty_like(V))

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (scale, V), (grad,), (of_scale, of_V) = ctx.saved_tensors, grads, ctx.needs_input_grad
        return (
            torch.mul(grad, V, out=empty_like(V)).sum(-1) if of_scale else None,
            torch.mul(scale.unsqueeze(-1), grad, out=empty_like(V)) if of_V else None,
        )
