"""Factors of undirected paths, as autograd sees them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.solvers.compiled.common import arrays_of, keep, twice
from chimera_ssm.topology.plans import PathPlan


def path_factors(plan: PathPlan, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """θ ``[G, T]``, f⁺ and f⁻ ``[G, T − 1]``, and the largest pivot ``[G]`` from weights ``[G, E]``, in line order."""
    return _PathFactors.apply(plan, weight)


def _plain(plan: PathPlan, weight: Tensor) -> tuple[Tensor, ...]:
    from chimera_ssm.solvers import undirected_line

    return undirected_line.path_factors(plan, weight)


class _PathFactors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: PathPlan, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        from chimera_ssm.solvers.kernels import undirected_line

        keep(ctx, (plan, weight))
        (heads, _), nodes = weight.shape, plan.ahead.shape[0]
        theta, fore, aft = (weight.new_empty(heads, nodes - k) for k in (0, 1, 1))
        growth = weight.new_empty(heads)
        ctx.mark_non_differentiable(growth)
        _run(undirected_line.factors, plan, weight, theta, fore, aft, growth)
        return theta, fore, aft, growth

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        from chimera_ssm.solvers.kernels import undirected_line

        (plan, _), (_, weight) = ctx.others, ctx.saved_tensors
        dw = torch.empty_like(weight, memory_format=torch.contiguous_format)
        _run(undirected_line.factors_adjoint, plan, weight, *grads[:3], dw)
        return None, dw


def _run(kernel: Any, plan: PathPlan, weight: Tensor, *tensors: Tensor) -> None:
    from chimera_ssm.solvers.kernels import pool

    arrays = arrays_of(plan.ahead, plan.back, weight, *tensors)
    pool.run(kernel, weight.shape[0], *arrays, work=50 * tensors[0].numel())
