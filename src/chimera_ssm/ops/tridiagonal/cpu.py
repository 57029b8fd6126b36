"""Factors of undirected paths by CPU kernels; equations in `chimera_ssm.ops.tridiagonal.resolvent`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import arrays_of, double_backward_via, save_arguments
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.tridiagonal import kernels
from chimera_ssm.ops.tridiagonal import torch as torch_backend
from chimera_ssm.topology.plans import PathPlan


def path_factors(plan: PathPlan, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
    """θ ``[G, T]``, f⁺ and f⁻ ``[G, T − 1]``, and the largest pivot ``[G]`` from weights ``[G, E]``, in line order."""
    growth = np.empty(weight.shape[0])
    return *_PathFactors.apply(plan, weight, growth), growth


def _plain(plan: PathPlan, weight: Tensor, _: np.ndarray) -> tuple[Tensor, ...]:
    return torch_backend.path_factors(plan, weight)[:3]


class _PathFactors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: PathPlan, weight: Tensor, growth: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        save_arguments(ctx, (plan, weight, growth))
        (heads, _), nodes = weight.shape, plan.ahead.shape[0]
        theta, fore, aft = (weight.new_empty(heads, nodes - k) for k in (0, 1, 1))
        _run(kernels.factors, plan, weight, theta, fore, aft, torch.from_numpy(growth))
        return theta, fore, aft

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        plan, weight = ctx.others[0], ctx.saved_tensors[1]
        dw = torch.empty_like(weight, memory_format=torch.contiguous_format)
        _run(kernels.factors_adjoint, plan, weight, *grads, dw)
        return None, dw, None


def _run(kernel: Any, plan: PathPlan, weight: Tensor, *tensors: Tensor) -> None:
    arrays = arrays_of(plan.ahead, plan.back, weight, *tensors)
    threads.run(kernel, weight.shape[0], *arrays, work=50 * tensors[0].numel())


OPERATIONS = {"path_factors": Operation(path_factors)}
