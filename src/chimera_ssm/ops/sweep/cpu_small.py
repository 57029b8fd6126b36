"""Small mixes through masks: one kernel for the forward pass, one for the backward pass.

They take as long as a few dozen calls of PyTorch, so that NumPy and the kernels do as much as possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu.denormals import denormals_as_zero
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    joined_weights,
    save_arguments,
    split_args,
    values_wanted,
)
from chimera_ssm.ops.mixing import add_masks
from chimera_ssm.ops.sweep.kernels_small import small_backward, small_forward
from chimera_ssm.ops.sweep.layout import Layout
from chimera_ssm.ops.terms import pack_terms


def mix_small(V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``, for a small layout; weights, scales, Cs and Bs one after the other."""
    if torch.is_grad_enabled():
        return _SmallMix.apply(V, layout, *tensors)
    return _values(layout, arrays_of(*_joined(layout, tensors), V))


def _joined(layout: Layout, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Weights ``[D·Z, H, E]`` and scales ``[D·Z, H, T]`` of all topologies, C and B ``[pairs·Z, G, T, N]``."""
    weights, scales, Cs, Bs = split_args(tensors)
    return joined_weights(weights), torch.cat(scales), layout.joined(Cs), layout.joined(Bs)


def _values(layout: Layout, arrays: list[np.ndarray]) -> Tensor:
    y = np.empty_like(arrays[-1])
    with denormals_as_zero():
        small_forward(layout.share, layout.forward_plan, *arrays, y)
    return torch.from_numpy(y)


def plain_mix(V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
    """The same in PyTorch, for any layout."""
    return add_masks(pack_terms("sweep", layout.topologies, tensors), V)


class _SmallMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
        joined = _joined(layout, tensors)
        save_arguments(ctx, (V, layout, *tensors), *joined)
        return _values(layout, arrays_of(*joined, V)) if values_wanted() else torch.empty_like(V)

    @staticmethod
    @double_backward_via(plain_mix)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        layout, (V, *_, weight, scale, C, B) = ctx.others[1], ctx.saved_tensors
        D, inputs = len(layout.topologies), arrays_of(weight, scale, C, B, V)
        found, plans = [np.empty_like(x) for x in inputs], (layout.forward_plan, layout.backward_plan)
        with denormals_as_zero():
            small_backward(layout.share, *plans, *inputs, *arrays_of(*grads), *found)
        weight, scale, C, B, V = map(torch.from_numpy, found)
        dCs, dBs = [None] * D, [None] * D
        for d, dC, dB in zip(layout.pairs, *(x.chunk(len(layout.pairs)) for x in (C, B)), strict=True):
            dCs[d], dBs[d] = dC, dB
        edges = zip(weight.chunk(D), layout.topologies, strict=True)
        dweights = (dw if dw.shape[-1] == t.num_edges else dw[..., : t.num_edges] for dw, t in edges)
        return V, None, *dweights, *scale.chunk(D), *dCs, *dBs
