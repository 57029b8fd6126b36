"""A convolution over windows with its activation in one pass over memory: autograd around the kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.cpu import threads
from chimera_ssm.nn import window_conv_kernels as kernels
from chimera_ssm.nn.window_gather import gather_convolution
from chimera_ssm.ops.autograd import arrays_of, double_backward_via, empty, flatten, save_arguments


def _activated_window(x: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
    return F.silu(gather_convolution(x, weight, bias, table))


class ActivatedWindow(torch.autograd.Function):
    """``silu(bias + Σ_o weight_o ⊙ x_{table[o, t]})``, ``weight [taps, D]``; saves only the inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
        save_arguments(ctx, (x, weight, bias, table))
        y, (memory, strides) = empty(*x.shape, like=x), flatten(x.detach())
        work = y.numel() * len(table)
        blocks, size = _blocks(x.shape[2], work)
        threads.run(kernels.forward, x.shape[0] * blocks, size, *arrays_of(table, memory), *strides,
                    *arrays_of(weight, bias, y), work=work)  # fmt: skip
        return y

    @staticmethod
    @double_backward_via(_activated_window)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, weight, bias, table = ctx.saved_tensors
        dx, dweight, dbias = empty(*x.shape, like=x), weight.new_zeros(weight.shape), torch.zeros_like(bias)
        memory, strides = flatten(x)
        work = 3 * dx.numel() * len(table)
        blocks, size = _blocks(x.shape[2], work)
        threads.run(kernels.backward, blocks, size, *arrays_of(table, memory), *strides,
                    *arrays_of(weight, bias, grads[0], dx, dweight, dbias), work=work)  # fmt: skip
        return dx, dweight, dbias, None


def _blocks(channels: int, work: int) -> tuple[int, int]:
    """Number of blocks of channels, a multiple of the number of threads, and their size; does not affect results."""
    count = threads.threads_for(work)
    least = count * -(-channels // (kernels.CHANNELS * count))
    size = -(-channels // (16 * least)) * 16
    return -(-channels // size), size
