"""Factors of undirected paths, as autograd sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops.autograd import arrays_of, keep, twice
from chimera_ssm.topology.plans import PathPlan


def path_factors(plan: PathPlan, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
    """θ ``[G, T]``, f⁺ and f⁻ ``[G, T − 1]``, and the largest pivot ``[G]`` from weights ``[G, E]``, in line order."""
    growth = np.empty(weight.shape[0])
    return *_PathFactors.apply(plan, weight, growth), growth


def _plain(plan: PathPlan, weight: Tensor, _: np.ndarray) -> tuple[Tensor, ...]:
    from chimera_ssm.ops.tridiagonal import solver as undirected_line

    return undirected_line.path_factors(plan, weight)[:3]


class _PathFactors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: PathPlan, weight: Tensor, growth: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        from chimera_ssm.ops.tridiagonal import kernels as undirected_line

        keep(ctx, (plan, weight, growth))
        (heads, _), nodes = weight.shape, plan.ahead.shape[0]
        theta, fore, aft = (weight.new_empty(heads, nodes - k) for k in (0, 1, 1))
        _run(undirected_line.factors, plan, weight, theta, fore, aft, torch.from_numpy(growth))
        return theta, fore, aft

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        from chimera_ssm.ops.tridiagonal import kernels as undirected_line

        plan, weight = ctx.others[0], ctx.saved_tensors[1]
        dw = torch.empty_like(weight, memory_format=torch.contiguous_format)
        _run(undirected_line.factors_adjoint, plan, weight, *grads, dw)
        return None, dw, None


def _run(kernel: Any, plan: PathPlan, weight: Tensor, *tensors: Tensor) -> None:
    from chimera_ssm.cpu import threads as pool

    arrays = arrays_of(plan.ahead, plan.back, weight, *tensors)
    pool.run(kernel, weight.shape[0], *arrays, work=50 * tensors[0].numel())
