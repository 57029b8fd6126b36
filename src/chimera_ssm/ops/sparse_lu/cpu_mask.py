"""Mixes through masks on general graphs, by CPU kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    not_a_view,
    save_arguments,
    summed,
    values_wanted,
    zeros,
)
from chimera_ssm.ops.mixing import add_masks, scaled
from chimera_ssm.ops.sparse_lu.cpu_factors import BLOCK_ELEMENTS, LDU, factors_of
from chimera_ssm.ops.sparse_lu.kernels_mask import masks_backward, masks_forward
from chimera_ssm.ops.terms import Term
from chimera_ssm.topology import Topology

#: Tasks of a mix at least, if necessary by dividing columns; each of these has results that must be summed.
_TASKS = 8


def mix_by_mask(terms: list[Term], V: Tensor) -> Tensor:
    """``y = (L ⊙ C B̄ᵀ) V``, a block of columns of L at a time."""
    (term,) = terms
    return _MixMask.apply(term.topology, factors_of(term), term.weight, term.C, term.B, scaled(term, V))


def _plain(topology: Topology, _: LDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    return add_masks([Term(topology, weight, C, B, None, "sparse_lu")], V)


class _MixMask(torch.autograd.Function):
    """The mix through masks; only the inputs are saved for the backward pass."""

    @staticmethod
    def forward(ctx: Any, topology: Topology, factors: LDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
        save_arguments(ctx, (topology, factors, weight, C, B, V))
        C, B, V = (x.detach().contiguous() for x in (C, B, V))
        if not values_wanted():
            return torch.empty_like(V)
        slots, width = _division(topology, C.shape[0] * C.shape[1])
        (Z, G, T, N), (H, P) = C.shape, (V.shape[1], V.shape[3])
        y = zeros(slots, Z, H, T, P, like=V)
        threads.run(masks_forward, Z * G * len(topology.parts) * slots, slots, width, factors.plan,
            *arrays_of(factors.lower, factors.upper, factors.inverse, C.view(-1, T, N), B.view(-1, T, N),
                   V.view(-1, T, P), y.view(slots, -1, T, P)), work=_work(topology, C, V))  # fmt: skip
        return not_a_view(summed(y))

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (topology, factors, *_) = grads, ctx.others
        C, B, V = (x.contiguous() for x in ctx.saved_tensors[3:])
        slots, width = _division(topology, C.shape[0] * C.shape[1])
        (Z, G, T, N), (H, P) = C.shape, (V.shape[1], V.shape[3])
        dweight, dC = zeros(slots, Z * H, topology.num_edges, like=V), zeros(slots, Z, G, T, N, like=V)
        dB, dV = zeros(*B.shape, like=B), zeros(*V.shape, like=V)
        rows = tuple(arrays_of(factors.lower, factors.upper, *factors.transposed()))
        threads.run(masks_backward, Z * G * len(topology.parts) * slots, slots, width, factors.plan, rows,
            *arrays_of(factors.inverse, C.view(-1, T, N), B.view(-1, T, N), V.view(-1, T, P),
                   grad.reshape(-1, T, P), dweight, dC.view(slots, -1, T, N), dB.view(-1, T, N),
                   dV.view(-1, T, P)), work=3 * _work(topology, C, V))  # fmt: skip
        return None, None, summed(dweight).view(Z, H, -1), summed(dC), dB, dV


def _division(topology: Topology, groups: int) -> tuple[int, int]:
    """Tasks for each group and part, and the number of columns of a block.

    Neither depends on the number of threads, so that results do not either.
    """
    largest = int(topology.part_sizes.max())
    width = min(max(64, BLOCK_ELEMENTS // largest // 32 * 32), -(-largest // 32) * 32)
    slots = min(-(-largest // width), -(-_TASKS // (groups * len(topology.parts))))
    return slots, width


def _work(topology: Topology, C: Tensor, V: Tensor) -> int:
    """Multiplications of a mix, but for those of the masks."""
    products = C.shape[0] * (C.shape[1] * C.shape[3] + V.shape[1] * V.shape[3])
    return int((topology.part_sizes**2).sum()) * products
