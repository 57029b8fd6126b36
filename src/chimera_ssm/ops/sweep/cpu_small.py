"""Small mixes by masks, as autograd sees them: one kernel forward, one backward.

These take as long as a few dozen calls of PyTorch, so that as much as possible is left to NumPy and to the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops.autograd import (
    arrays_of,
    joined_weights,
    keep,
    quarters,
    terms_of,
    twice,
    values_wanted,
)

if TYPE_CHECKING:
    from chimera_ssm.ops.sweep.cpu_masks import Layout


def mix_small(V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``, of a layout that is small; weights, scales, Cs and Bs one after the other."""
    if torch.is_grad_enabled():
        return _SmallMix.apply(V, layout, *tensors)
    return _values(layout, arrays_of(*_joined(layout, tensors), V))


def _joined(layout: Layout, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Weights ``[D·Z, H, E]`` and scales ``[D·Z, H, T]`` of all topologies, C and B ``[pairs·Z, G, T, N]``."""
    weights, scales, Cs, Bs = quarters(tensors)
    return joined_weights(weights), torch.cat(scales), layout.joined(Cs), layout.joined(Bs)


def _values(layout: Layout, arrays: list[np.ndarray]) -> Tensor:
    from chimera_ssm.cpu.denormals import without_denormals
    from chimera_ssm.ops.sweep.kernels_small import small_forward

    y = np.empty_like(arrays[-1])
    without_denormals(small_forward, layout.share, layout.forward_plans, *arrays, y)
    return torch.from_numpy(y)


def plain_mix(V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
    """The same in PyTorch, of any layout."""
    from chimera_ssm.ops.mixing import mix_by_mask

    return mix_by_mask(terms_of(layout.topologies, V, tensors), V)


class _SmallMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
        joined = _joined(layout, tensors)
        keep(ctx, (V, layout, *tensors), *joined)
        return _values(layout, arrays_of(*joined, V)) if values_wanted() else torch.empty_like(V)

    @staticmethod
    @twice(plain_mix)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from chimera_ssm.cpu.denormals import without_denormals
        from chimera_ssm.ops.sweep.kernels_small import small_backward

        layout, (V, *_, weight, scale, C, B) = ctx.others[1], ctx.saved_tensors
        D, inputs = len(layout.topologies), arrays_of(weight, scale, C, B, V)
        found, plans = [np.empty_like(x) for x in inputs], (layout.forward_plans, layout.backward_plans)
        without_denormals(small_backward, layout.share, *plans, *inputs, *arrays_of(*grads), *found)
        weight, scale, C, B, V = map(torch.from_numpy, found)
        dCs, dBs = [None] * D, [None] * D
        for d, dC, dB in zip(layout.pairs, *(x.chunk(len(layout.pairs)) for x in (C, B)), strict=True):
            dCs[d], dBs[d] = dC, dB
        edges = zip(weight.chunk(D), layout.topologies, strict=True)
        dweights = (dw if dw.shape[-1] == t.num_edges else dw[..., : t.num_edges] for dw, t in edges)
        return V, None, *dweights, *scale.chunk(D), *dCs, *dBs
