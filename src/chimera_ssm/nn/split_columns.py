"""`split_columns`: a split whose backward pass writes the gradient in one pass, into memory of the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.nn.kernel_support import can_use_kernels
from chimera_ssm.ops.autograd import empty


def split_columns(x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """``x.split(sizes, dim=-1)``.

    PyTorch concatenates the gradients in newly allocated memory. For the projections of a large model most of that time
    goes into page faults, which NumPy's huge pages avoid.
    """
    return _SplitColumns.apply(x, sizes) if can_use_kernels(x) else x.split(list(sizes), dim=-1)


class _SplitColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        return x.split(list(sizes), dim=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # second derivatives
            return torch.cat(grads, dim=-1), None
        joined = empty(*grads[0].shape[:-1], sum(g.shape[-1] for g in grads), like=grads[0])
        return torch.cat(grads, dim=-1, out=joined), None
