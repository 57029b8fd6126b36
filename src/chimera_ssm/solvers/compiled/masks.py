"""Mixes by masks on acyclic topologies, as autograd sees them."""

from __future__ import annotations

from math import prod
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.solvers.blocks import join, split
from chimera_ssm.solvers.compiled.common import Once, arrays_of, flipped, plan_of, quarters
from chimera_ssm.topology import Topology

if TYPE_CHECKING:
    from chimera_ssm.solvers.kernels.plan import SweepPlan

#: Numbers of M that exist at once: enough to keep threads busy, few enough to stay in a cache.
_MASK_ELEMENTS = 1 << 21


class _Kept(local):
    """The memory of M, kept by each thread from call to call: new pages cost more than what is done with them."""

    def __init__(self) -> None:
        self.by_dtype: dict[torch.dtype, Tensor] = {}


_kept = _Kept()


def _memory(like: Tensor, *shape: int) -> Tensor:
    """Uninitialised memory in the dtype of ``like``, the same at every call if it is not too much."""
    size = prod(shape)
    if size > _MASK_ELEMENTS:
        return like.new_empty(shape)
    if like.dtype not in _kept.by_dtype:
        with torch.inference_mode(False):  # it may be used for training next
            _kept.by_dtype[like.dtype] = torch.empty(_MASK_ELEMENTS, dtype=like.dtype)
    return _kept.by_dtype[like.dtype][:size].view(shape)


def mix_by_masks(topologies: list[Topology], weights: list[Tensor], Cs: list[Tensor], Bs: list[Tensor], V: Tensor,
                 scales: list[Tensor]) -> Tensor:  # fmt: skip
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on acyclic topologies, shapes as in `chimera_ssm.solvers.forms`."""
    return _MaskMix.apply(V, topologies, *weights, *scales, *Cs, *Bs)


class _MaskMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
        layout = _Layout(topologies, V, *quarters(tensors))
        ctx.save_for_backward(V, *tensors)
        ctx.topologies = topologies
        v = layout.split(V.detach().flatten(0, 1))
        y = torch.empty_like(v)
        for groups, heads, M in layout.chunks():
            layout.fill(M, heads, layout.products(groups))
            masks = layout.as_blocks(M)[..., : layout.side]
            torch.bmm(masks, v[heads].flatten(0, 1), out=y[heads].flatten(0, 1))
        return layout.join(y).view(V.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        V, *tensors = ctx.saved_tensors
        layout = _Layout(ctx.topologies, V, *quarters(tuple(tensors)))
        g = layout.split(grads[0].flatten(0, 1))
        wide = layout.split(V.flatten(0, 1), layout.columns)
        dV = torch.empty_like(wide)
        gradients = layout.empty_gradients()
        for groups, heads, M in layout.chunks():
            products = layout.products(groups)
            layout.fill(M, heads, products)
            blocks, out = layout.as_blocks(M), g[heads].flatten(0, 1)
            torch.bmm(blocks.mT, out, out=dV[heads].flatten(0, 1))
            torch.bmm(out, wide[heads].flatten(0, 1).mT, out=blocks)
            layout.adjoint(M, groups, heads, products, gradients)
        dV = layout.join(dV[..., : layout.side, :]).view(V.shape)
        return dV, None, *(x for kind in gradients for x in kind)


class _Layout:
    """Padded blocks of a mask mix: rows and columns within each part of the topologies, columns in whole vectors."""

    def __init__(self, topologies: list[Topology], V: Tensor, weights: Any, scales: Any, Cs: Any, Bs: Any):
        self.topologies, self.weights, self.Cs, self.Bs = topologies, weights, Cs, Bs
        self.scales = [s.flatten(0, 1) for s in scales]
        self.plan = topologies[0].tensors("block_plan", V.device)
        (self.blocks, self.side), self.groups = self.plan.shape, Cs[0].shape[0] * Cs[0].shape[1]
        self.columns = -(-self.side // 8) * 8
        self.share = V.shape[0] * V.shape[1] // self.groups
        split = Once(lambda x: self.split(x.detach().flatten(0, 1), self.columns))
        self.C, self.B = [split(x) for x in Cs], [split(x) for x in Bs]

    def split(self, x: Tensor, side: int | None = None) -> Tensor:
        """``[H, T, K]`` → ``[H, blocks, side, K]``."""
        blocks, missing = split(self.plan, x), (side or self.side) - self.side
        return (pad(blocks, (0, 0, 0, missing)) if missing else blocks).contiguous()

    def join(self, x: Tensor) -> Tensor:
        """The reverse."""
        return join(self.plan, x)

    def as_blocks(self, M: Tensor) -> Tensor:
        """``[H, rows, columns]`` → ``[H·blocks, side, columns]``."""
        return M.view(-1, self.side, self.columns)

    def chunks(self) -> Any:
        """Groups, heads and a matrix M for them: a few at a time, in the same memory."""
        size = self.blocks * self.side * self.columns
        step = max(1, _MASK_ELEMENTS // (size * self.share))
        heads = min(step, self.groups) * self.share
        memory = _memory(self.weights[0], heads, self.blocks * self.side, self.columns)
        for first in range(0, self.groups, step):
            groups = slice(first, min(first + step, self.groups))
            heads = slice(groups.start * self.share, groups.stop * self.share)
            yield groups, heads, memory[: heads.stop - heads.start]

    def products(self, groups: slice) -> list[Tensor]:
        """``S = C Bᵀ`` for each topology, ``[G, rows, columns]``, each pair of tensors once."""
        once: dict[tuple[int, int], Tensor] = {}
        for C, B in zip(self.C, self.B, strict=True):
            if (id(C), id(B)) not in once:
                S = C[groups, :, : self.side].flatten(0, 1) @ B[groups].flatten(0, 1).mT
                once[id(C), id(B)] = S.view(-1, self.blocks * self.side, self.columns)
        return [once[id(C), id(B)] for C, B in zip(self.C, self.B, strict=True)]

    def fill(self, M: Tensor, heads: slice, products: list[Tensor]) -> None:
        """``M = Σ_d L_d ⊙ C_d B̄_dᵀ``."""
        from chimera_ssm.solvers.kernels import masks, pool

        plan = _stacked_plans(self.topologies)
        steps = (
            plan["node"],
            plan["row"],
            plan["column"],
            plan["begin"],
            plan["edge"],
            plan["source_slot"],
            plan["slot"],
        )
        which, S = self._distinct(products)
        arrays = arrays_of(self._stack(self.weights, heads), self._stack(self.scales, heads), S, M)
        pool.run(
            masks.masks_forward, M.shape[0], *steps, plan["slots"], plan["low"], plan["high"], which, *arrays,
            work=len(products) * M.numel(),
        )  # fmt: skip

    @staticmethod
    def _stack(tensors: Any, heads: slice) -> Tensor:
        """``[D, H, ·]``, zeros where a topology has less."""
        size = max(x.shape[1] for x in tensors)
        return torch.stack([pad(x[heads].detach(), (0, size - x.shape[1])) for x in tensors])

    @staticmethod
    def _distinct(products: list[Tensor]) -> tuple[Any, Tensor]:
        """For each topology the number of its products among the distinct ones, and these."""
        distinct = list({id(S): S for S in products}.values())
        which = np.array([next(i for i, S in enumerate(distinct) if S is T) for T in products])
        return which, distinct[0].unsqueeze(0) if len(distinct) == 1 else torch.stack(distinct)

    def empty_gradients(self) -> list[list[Tensor]]:
        """Room for gradients of weights, scales, Cs and Bs."""
        return [
            [torch.zeros_like(w) for w in self.weights],
            [torch.zeros_like(s).view(-1, self.Cs[0].shape[1] * self.share, s.shape[-1]) for s in self.scales],
            [C.new_empty(C.shape) for C in self.Cs],  # contiguous, unlike C may be: written through views
            [B.new_empty(B.shape) for B in self.Bs],
        ]

    def adjoint(
        self, dM: Tensor, groups: slice, heads: slice, products: list[Tensor], gradients: list[list[Tensor]]
    ) -> None:
        """Gradients of these groups for ``dM = g Vᵀ``."""
        from chimera_ssm.solvers.kernels import masks, pool

        count = groups.stop - groups.start
        splits = min(self.share, -(-pool.threads_for(dM.numel()) // count))
        memory = products[0].new_empty(splits, *products[0].shape)  # new memory costs more than what is done with it
        for d, (topology, S) in enumerate(zip(self.topologies, products, strict=True)):
            plan, back = plan_of(topology, carry=False), plan_of(flipped(topology), carry=False)
            dS = memory.zero_()
            dw, dscale = gradients[0][d][heads], gradients[1][d].flatten(0, 1)[heads]
            arrays = arrays_of(self.weights[d][heads], self.scales[d][heads], S, dM, dw, dscale, dS)
            pool.run(
                masks.masks_backward, count * splits, splits, plan.node, plan.row, plan.column, plan.begin, plan.edge,
                plan.source_step, plan.low, plan.high, _back_steps(topology, plan, back), back.begin, back.edge,
                back.source_slot, back.slot, back.slots, *arrays, work=dM.numel(),
            )  # fmt: skip
            dS = (dS[0] if splits == 1 else dS.sum(0)).view(-1, self.side, self.columns)
            C, B = self.C[d][groups, :, : self.side].flatten(0, 1), self.B[d][groups].flatten(0, 1)
            dC, dB = (
                (dS @ B).view(count, self.blocks, self.side, -1),
                (dS.mT @ C).view(count, self.blocks, self.columns, -1),
            )
            gradients[2][d].flatten(0, 1)[groups] = self.join(dC)
            gradients[3][d].flatten(0, 1)[groups] = self.join(dB[:, :, : self.side])


def _stacked_plans(topologies: list[Topology]) -> dict[str, Any]:
    """Plans of several topologies on the same nodes, each array ``[D, ·]``, padded with zeros."""

    def make() -> dict[str, Any]:
        plans = [plan_of(t, carry=False) for t in topologies]
        stacked: dict[str, Any] = {"slots": max(p.slots for p in plans)}
        for name in ("node", "row", "column", "begin", "edge", "source_slot", "slot", "low", "high"):
            arrays = [getattr(p, name) for p in plans]
            size = max(1, *(a.size for a in arrays))
            stacked[name] = np.stack([np.pad(a, (0, size - a.size)) for a in arrays])
        return stacked

    return topologies[0].once(("stacked plans", *topologies[1:]), make)


def _back_steps(topology: Topology, plan: SweepPlan, back: SweepPlan) -> Any:
    """Step of the plan that each step of the flipped plan corresponds to."""

    def make() -> Any:
        step = np.empty_like(plan.node)
        step[plan.node] = np.arange(plan.node.size, dtype=plan.node.dtype)
        return step[back.node]

    return topology.once("back steps", make)
