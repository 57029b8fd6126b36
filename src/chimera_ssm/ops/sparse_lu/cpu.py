"""`Elimination` on the CPU by Numba kernels: the same factors and solves, and a mix by masks that fit the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops.autograd import (
    arrays_of,
    empty,
    flatten,
    keep,
    not_a_view,
    summed,
    twice,
    values_wanted,
    zeros,
)
from chimera_ssm.topology import Topology

if TYPE_CHECKING:
    from chimera_ssm.ops.mixing import Term

#: Numbers of a block of columns: half of a second-level cache of half a megabyte in float32.
_BLOCK = 1 << 16
#: Tasks that a mix is divided into, if only by columns; each of these adds results of its own to be summed.
_TASKS = 8


class CompiledLDU:
    """Factors of I − A for weights ``[G, E]``; −L, −U off their unit diagonals ``[G, F]``, and D⁻¹ ``[G, T]``.

    ``growth [G, parts]`` is the largest magnitude that entries had during elimination.
    """

    def __init__(self, topology: Topology, weight: Tensor):
        from chimera_ssm.cpu.threads import run
        from chimera_ssm.ops.sparse_lu.kernels import LANES, factorise
        from chimera_ssm.ops.sparse_lu.plan import lu_plan

        self.plan = lu_plan(topology)
        G, F = weight.shape[0], self.plan.lower_column.size
        self.lower, self.upper, self.inverse = (empty(G, n, like=weight) for n in (F, F, topology.num_nodes))
        parts = self.plan.part.size - 1
        tasks = parts * -(-G // LANES)
        arrays = arrays_of(weight, self.lower, self.upper, self.inverse)
        self.growth = np.empty((G, parts), arrays[0].dtype)
        run(factorise, tasks, self.plan, *arrays, self.growth, work=32 * tasks * F)

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``(I − A)⁻¹ @ rhs``, or transposed: the same with L and U exchanged; ``[G, T, K]``."""
        from chimera_ssm.cpu.threads import run
        from chimera_ssm.ops.sparse_lu.kernels import solve

        ahead, back = self.transposed() if transpose else (self.lower, self.upper)
        G, T, K = rhs.shape
        x = empty(G, T, K, like=rhs)
        if x.numel() == 0:
            return x
        parts = self.plan.part.size - 1
        tile = 16 if K <= 16 else 32
        width = min(-(-K // tile) * tile, max(32, _BLOCK // self.plan.largest // 32 * 32))
        tasks = G * parts * -(-K // width)
        flat, strides = flatten(rhs)
        run(solve, tasks, width, self.plan, *arrays_of(ahead, back, self.inverse, flat), *strides, *arrays_of(x),
            work=G * K * (T + 2 * ahead.shape[1]))  # fmt: skip
        return x

    def rows(self) -> Tensor:
        """Rows of (I − A)⁻¹ within each part, ``[G, T, S]`` with S nodes in the largest part."""
        from chimera_ssm.cpu.threads import run
        from chimera_ssm.ops.sparse_lu.kernels import invert

        (G, T), S, parts = self.inverse.shape, self.plan.largest, self.plan.part.size - 1
        x = empty(G, T, S, like=self.inverse)
        run(invert, G * parts, self.plan, *arrays_of(self.lower, self.upper, self.inverse, x),
            work=S * G * (T + 2 * self.lower.shape[1]))  # fmt: skip
        return x

    def transposed(self) -> tuple[Tensor, Tensor]:
        """−Uᵀ and −Lᵀ, row by row."""
        rows = [torch.from_numpy(x) for x in (self.plan.upper_pair, self.plan.lower_pair)]
        return self.upper.index_select(1, rows[0]), self.lower.index_select(1, rows[1])


def lu_mix_mask(topology: Topology, factors: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """``y = (L ⊙ C Bᵀ) V`` through the mask, ``[Z, H, T, P]``, with ``L = (I − A)⁻¹`` a block of columns at a time.

    Args:
        topology: any topology; masks stay within its parts.
        factors: those of the weights, for which LU without pivoting has to be stable.
        weight: ``[Z·H, E]``.
        C: ``[Z, G, T, N]``, G divides H.
        B: ``[Z, G, T, N]``.
        V: ``[Z, H, T, P]``; B̄ = β B is the same as β V.
    """
    return _MixMask.apply(topology, factors, weight, C, B, V)


def eliminated(topology: Topology, _: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor) -> list[Term]:
    """The same mix for `chimera_ssm.ops.mixing`."""
    from chimera_ssm.ops.mixing import Term
    from chimera_ssm.ops.sparse_lu.solver import Elimination

    return [Term(Elimination(), topology, weight.unflatten(0, V.shape[:2]), C, B, None)]


def _plain(*arguments: Any) -> Tensor:
    from chimera_ssm.ops.mixing import mix_by_mask

    return mix_by_mask(eliminated(*arguments), arguments[-1])


class _MixMask(torch.autograd.Function):
    """The mix by masks; for the backward pass only the inputs are kept."""

    @staticmethod
    def forward(
        ctx: Any, topology: Topology, factors: CompiledLDU, weight: Tensor, C: Tensor, B: Tensor, V: Tensor
    ) -> Tensor:
        from chimera_ssm.cpu.threads import run
        from chimera_ssm.ops.sparse_lu.kernels_masks import masks_forward

        keep(ctx, (topology, factors, weight, C, B, V))
        C, B, V = (x.detach().contiguous() for x in (C, B, V))
        if not values_wanted():
            return torch.empty_like(V)
        slots, width = _division(topology, C.shape[0] * C.shape[1])
        (Z, G, T, N), (H, P) = C.shape, (V.shape[1], V.shape[3])
        y = zeros(slots, Z, H, T, P, like=V)
        run(masks_forward, Z * G * len(topology.parts) * slots, slots, width, factors.plan,
            *arrays_of(factors.lower, factors.upper, factors.inverse, C.view(-1, T, N), B.view(-1, T, N),
                   V.view(-1, T, P), y.view(slots, -1, T, P)), work=_work(topology, C, V))  # fmt: skip
        return not_a_view(summed(y))

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from chimera_ssm.cpu.threads import run
        from chimera_ssm.ops.sparse_lu.kernels_masks import masks_backward

        (grad,), (topology, factors, *_) = grads, ctx.others
        C, B, V = (x.contiguous() for x in ctx.saved_tensors[3:])
        slots, width = _division(topology, C.shape[0] * C.shape[1])
        (Z, G, T, N), (H, P) = C.shape, (V.shape[1], V.shape[3])
        dweight, dC = zeros(slots, Z * H, topology.num_edges, like=V), zeros(slots, Z, G, T, N, like=V)
        dB, dV = zeros(*B.shape, like=B), zeros(*V.shape, like=V)
        rows = tuple(arrays_of(factors.lower, factors.upper, *factors.transposed()))
        run(masks_backward, Z * G * len(topology.parts) * slots, slots, width, factors.plan, rows,
            *arrays_of(factors.inverse, C.view(-1, T, N), B.view(-1, T, N), V.view(-1, T, P),
                   grad.reshape(-1, T, P), dweight, dC.view(slots, -1, T, N), dB.view(-1, T, N),
                   dV.view(-1, T, P)), work=3 * _work(topology, C, V))  # fmt: skip
        return None, None, summed(dweight), summed(dC), dB, dV


def _division(topology: Topology, groups: int) -> tuple[int, int]:
    """Tasks for each group and part, and the number of columns of a block.

    Neither depends on the number of threads, so that results do not either.
    """
    largest = int(topology.part_sizes.max())
    width = min(max(64, _BLOCK // largest // 32 * 32), -(-largest // 32) * 32)
    slots = min(-(-largest // width), -(-_TASKS // (groups * len(topology.parts))))
    return slots, width


def _work(topology: Topology, C: Tensor, V: Tensor) -> int:
    """Multiplications of a mix, but for those of the masks."""
    products = C.shape[0] * (C.shape[1] * C.shape[3] + V.shape[1] * V.shape[3])
    return int((topology.part_sizes**2).sum()) * products
