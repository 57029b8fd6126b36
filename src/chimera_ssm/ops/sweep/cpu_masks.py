"""Mixes by masks on acyclic topologies, as autograd sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from threading import local
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu.workspace import workspace
from chimera_ssm.ops.autograd import (
    empty,
    flipped,
    joined_weights,
    keep,
    not_a_view,
    plan_of,
    quarters,
    twice,
    values_wanted,
)
from chimera_ssm.ops.dense_blocks import join, split
from chimera_ssm.ops.sweep.cpu_small import mix_small, plain_mix
from chimera_ssm.topology import Topology

#: Numbers of M that exist at once: enough to keep threads busy, few enough to stay in a cache.
_MASK_ELEMENTS = 1 << 21
#: Multiplications that take less time than a few calls of PyTorch.
_SMALL_WORK = 1_000_000


class _Scratch(local):
    """Memory that each thread keeps from call to call: new pages cost more than what is done with them."""

    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}
        self.views: dict[Any, Tensor] = {}

    def get(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Uninitialised memory, the same at every call if it is not too much."""
        view = self.views.get((name, dtype, shape))
        return self._make(name, dtype, shape) if view is None else view

    def _make(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        size = prod(shape)
        if size > _MASK_ELEMENTS:
            return workspace.empty(shape, dtype)
        if (name, dtype) not in self.kept or self.kept[name, dtype].numel() < size or len(self.views) > 64:
            self.views.clear()  # they hold on to the memory before
            with torch.inference_mode(False):  # it may be used for training next
                self.kept[name, dtype] = torch.empty(size, dtype=dtype)
        self.views[name, dtype, shape] = view = self.kept[name, dtype][:size].view(shape)
        return view


_scratch = _Scratch()


def mix_by_masks(topologies: list[Topology], weights: list[Tensor], Cs: list[Tensor], Bs: list[Tensor], V: Tensor,
                 scales: list[Tensor]) -> Tensor:  # fmt: skip
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on acyclic topologies, shapes as in `chimera_ssm.ops.mixing`."""
    pairs = [(id(C), id(B)) for C, B in zip(Cs, Bs, strict=True)]
    first_use = tuple(pairs.index(pair) for pair in pairs)
    layout = topologies[0].once(
        ("mask layout", *topologies[1:], V.shape, Cs[0].shape, first_use),
        lambda: Layout(topologies, V.shape, Cs[0].shape, first_use),
    )
    if layout.small:
        return mix_small(V, layout, *weights, *scales, *Cs, *Bs)
    if not torch.is_grad_enabled():
        return _forward(V, layout, (*weights, *scales, *Cs, *Bs), keep=False)[0]
    return _MaskMix.apply(V, layout, *weights, *scales, *Cs, *Bs)


def _forward(V: Tensor, layout: Layout, tensors: tuple[Tensor, ...], keep: bool) -> tuple[Tensor, list[Tensor]]:
    """The mix, and the products S of each chunk if they are to be kept."""
    inputs = _Inputs(layout, *quarters(tensors))
    v = layout.rows(V)
    y, kept = empty(*v.shape, like=v), []
    for chunk in layout.chunks:
        S = inputs.products(chunk, keep)
        M = inputs.masks(chunk, S)
        torch.bmm(layout.narrowed(M), chunk.of(v), out=chunk.of(y))
        kept += [S] if keep else []
    return layout.nodes(y, V.shape), kept


class _MaskMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
        small = layout.products_are_small and any(ctx.needs_input_grad)
        y, products = _forward(V, layout, tensors, keep=small) if values_wanted() else (torch.empty_like(V), [])
        keep(ctx, (V, layout, *tensors), *products)
        return not_a_view(y)

    @staticmethod
    @twice(plain_mix)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        layout, (V, _, *saved) = ctx.others[1], ctx.saved_tensors
        count = 4 * len(layout.topologies)
        inputs, kept = _Inputs(layout, *quarters(tuple(saved[:count]))), saved[count:]
        v, g = layout.rows(V), layout.rows(grads[0])
        dV, gradients = empty(*v.shape, like=v), _Gradients(inputs)
        for number, chunk in enumerate(layout.chunks):
            S = kept[number] if kept else inputs.products(chunk, keep=False)
            M = inputs.masks(chunk, S)
            torch.bmm(layout.narrowed(M).mT, chunk.of(g), out=chunk.of(dV))
            torch.bmm(chunk.of(g), layout.widened("v", chunk.of(v)).mT, out=M)
            gradients.add(chunk, S, M)
        return layout.nodes(dV, V.shape), None, *gradients.of_tensors()


@dataclass(frozen=True)
class _Chunk:
    """Heads that are worked on at once.

    Attributes:
        start: the first of them.
        heads: how many.
        groups: slice of blocks of a B or C: those of their groups.
        blocks: slice of blocks of V.
        whole: whether there is no other chunk.
    """

    start: int
    heads: int
    groups: slice
    blocks: slice
    whole: bool

    def of(self, x: Tensor) -> Tensor:
        """Blocks of these heads, of all ``[heads·parts, ·, ·]``."""
        return x if self.whole else x[self.blocks]

    def of_groups(self, x: Tensor) -> Tensor:
        """Blocks of their groups, of all ``[groups·parts, ·, ·]``."""
        return x if self.whole else x[self.groups]


class Layout:
    """How a mask mix of given shapes is laid out; made once for these.

    Rows and columns are counted within each part of the topologies, columns in whole vectors:
    ``V [heads·parts, side, P]``, ``M [heads·parts, side, columns]``, each ``C, B [groups·parts, side, N]``. A pair
    is a C with its B; pairs that are used twice are there once.

    Args:
        topologies: on the same nodes.
        V: shape of V, ``[Z, H, T, P]``.
        C: shape of C and B, ``[Z, G, T, N]``.
        first_use: for each topology the first one that has the same C and B.
    """

    def __init__(self, topologies: list[Topology], V: torch.Size, C: torch.Size, first_use: tuple[int, ...]):
        from chimera_ssm.cpu.simd import WIDTH

        self.topologies, self.shape_of_C = topologies, C
        self.plan = topologies[0].tensors("block_plan", torch.device("cpu"))
        self.parts, self.side = self.plan.shape
        self.columns = -(-self.side // WIDTH) * WIDTH
        self.heads, self.groups = V[0] * V[1], C[0] * C[1]
        self.share = self.heads // self.groups
        self.pairs = sorted(set(first_use))
        self.which = np.array([self.pairs.index(d) for d in first_use])
        rows, N, P = self.parts * self.side, C[3], V[3]
        work = rows * self.columns * (self.heads * (P + 4 * len(topologies)) + self.groups * len(self.pairs) * N)
        fits = self.plan.trivial and self.parts == 1 and self.side >= 4 and N % WIDTH == 0 and P % WIDTH == 0
        self.small = fits and work < _SMALL_WORK
        self.products_are_small = (
            not self.small and len(self.pairs) * self.groups * self.columns <= 2 * self.heads * V[3]
        )
        self.chunks = self._chunks()

    def _chunks(self) -> list[_Chunk]:
        step = max(1, _MASK_ELEMENTS // (self.share * self.parts * self.side * self.columns))
        chunks = []
        for first in range(0, self.groups, step):
            last = min(first + step, self.groups)
            groups, blocks = (slice(first * each * self.parts, last * each * self.parts) for each in (1, self.share))
            chunks.append(_Chunk(first * self.share, (last - first) * self.share, groups, blocks, step >= self.groups))
        return chunks

    def joined(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """``[pairs·Z, G, T, N]`` of each pair's C or B."""
        found = [tensors[d] for d in self.pairs]
        return torch.cat(found) if len(found) > 1 else found[0]

    def rows(self, x: Tensor) -> Tensor:
        """``[..., T, K]`` → ``[·, side, K]``."""
        return (x if self.plan.trivial else split(self.plan, x)).reshape(-1, self.side, x.shape[-1])

    def nodes(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The reverse."""
        return (x if self.plan.trivial else join(self.plan, x.view(-1, self.parts, *x.shape[1:]))).view(shape)

    def widened(self, name: str, x: Tensor) -> Tensor:
        """``[·, side, K]`` → ``[·, columns, K]``, with rows of zeros."""
        if self.side == self.columns:
            return x
        wide = _scratch.get(name, x.dtype, x.shape[0], self.columns, x.shape[2])
        wide[:, : self.side] = x
        wide[:, self.side :] = 0
        return wide

    def narrowed(self, x: Tensor) -> Tensor:
        """``[·, side, columns]`` → ``[·, side, side]``."""
        return x if self.side == self.columns else x[..., : self.side]

    @cached_property
    def forward_plans(self) -> tuple[Any, ...]:
        """What `masks_forward` wants to know of the topologies."""
        plans = [plan_of(t, carry=False) for t in self.topologies]
        names = "node", "row", "column", "begin", "edge", "source_slot", "slot"
        slots = max(p.slots for p in plans)
        low, high = _stack_plans(plans, "low"), _stack_plans(plans, "high")
        return *(_stack_plans(plans, n) for n in names), slots, low, high, self.which

    @cached_property
    def backward_plans(self) -> tuple[Any, ...]:
        """What `masks_backward` wants to know of them."""
        plans = [plan_of(t, carry=False) for t in self.topologies]
        backs = [plan_of(flipped(t), carry=False) for t in self.topologies]
        names = "node", "row", "column", "begin", "edge", "source_step", "low", "high"
        steps = np.stack([np.argsort(p.node)[b.node] for p, b in zip(plans, backs, strict=True)])
        back_names = "begin", "edge", "source_slot", "slot"
        back_arrays = (_stack_plans(backs, n) for n in back_names)
        slots = max(b.slots for b in backs)
        return *(_stack_plans(plans, n) for n in names), steps, *back_arrays, slots, self.which


class _Inputs:
    """Weights and scales ``[D, heads, ·]``, C and B of a mask mix, and what is made of them."""

    def __init__(self, layout: Layout, weights: Any, scales: Any, Cs: Any, Bs: Any):
        self.layout = layout
        self.weight = joined_weights(weights).view(len(weights), layout.heads, -1)
        self.scale = torch.cat(scales).view(len(scales), layout.heads, -1)
        self.Cs, self.Bs = Cs, Bs

    @cached_property
    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """``[groups·parts, side, N]`` of each pair's C and B."""
        rows = self.layout.rows
        return [(rows(self.Cs[d]), rows(self.Bs[d])) for d in self.layout.pairs]

    def products(self, chunk: _Chunk, keep: bool) -> Tensor:
        """``S = C Bᵀ``, ``[pairs, groups, parts·side, columns]``; in memory of its own if it is to be kept."""
        layout, dtype = self.layout, self.weight.dtype
        shape = len(layout.pairs), chunk.heads // layout.share, layout.parts * layout.side, layout.columns
        S = empty(*shape, like=self.weight) if keep else _scratch.get("S", dtype, *shape)
        for (C, B), out in zip(self.pairs, S.view(shape[0], -1, layout.side, layout.columns), strict=True):
            torch.bmm(chunk.of_groups(C), layout.widened("B", chunk.of_groups(B)).mT, out=out)
        return S

    def masks(self, chunk: _Chunk, S: Tensor) -> Tensor:
        """``M = Σ_d L_d ⊙ C_d B̄_dᵀ``, ``[heads·parts, side, columns]``."""
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.sweep import kernels_masks as masks

        layout = self.layout
        M = _scratch.get("M", S.dtype, chunk.heads, *S.shape[2:])
        pool.run(
            masks.masks_forward, chunk.heads, chunk.start, layout.share, *layout.forward_plans,
            self.weight.numpy(), self.scale.numpy(), S.numpy(), M.numpy(), work=len(layout.topologies) * M.numel(),
        )  # fmt: skip
        return M.view(-1, layout.side, layout.columns)


class _Gradients:
    """Gradients of weights, scales, and each pair's C and B, collected chunk by chunk."""

    def __init__(self, inputs: _Inputs):
        self.layout, self.inputs = inputs.layout, inputs
        self.weight, self.scale = torch.empty_like(inputs.weight), torch.empty_like(inputs.scale)
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def add(self, chunk: _Chunk, S: Tensor, dM: Tensor) -> None:
        """Gradients of these heads for ``dM = g Vᵀ``."""
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.sweep import kernels_masks as masks

        layout, inputs, work = self.layout, self.inputs, dM.numel() * len(self.layout.topologies)
        splits = min(layout.share, -(-pool.threads_for(work) // (S.shape[0] * S.shape[1])))
        dS = _scratch.get("dS", S.dtype, splits, *S.shape)
        pool.run(
            masks.masks_backward, splits * S.shape[0] * S.shape[1], chunk.start, layout.share, splits,
            *layout.backward_plans, inputs.weight.numpy(), inputs.scale.numpy(), S.numpy(),
            dM.view(chunk.heads, *S.shape[2:]).numpy(), self.weight.numpy(), self.scale.numpy(), dS.numpy(), work=work,
        )  # fmt: skip
        dS = (dS[0] if splits == 1 else dS.sum(0)).view(S.shape[0], -1, layout.side, layout.columns)
        self.pairs = self.pairs or [(empty(*C.shape, like=C), empty(*B.shape, like=B)) for C, B in inputs.pairs]
        for (C, B), (dC, dB), d in zip(inputs.pairs, self.pairs, layout.narrowed(dS), strict=True):
            torch.bmm(d, chunk.of_groups(B), out=chunk.of_groups(dC))
            torch.bmm(d.mT, chunk.of_groups(C), out=chunk.of_groups(dB))

    def of_tensors(self) -> list[Tensor | None]:
        """In the order of `_MaskMix`'s tensors; a C or B that was used twice has its gradient where it was first."""
        layout, D = self.layout, len(self.layout.topologies)
        lead = layout.shape_of_C[0], layout.heads // layout.shape_of_C[0]
        dCs, dBs = dict.fromkeys(range(D)), dict.fromkeys(range(D))
        for d, (dC, dB) in zip(layout.pairs, self.pairs, strict=True):
            dCs[d], dBs[d] = (layout.nodes(x, layout.shape_of_C) for x in (dC, dB))
        return [
            *(dw[..., : t.num_edges] for dw, t in zip(self.weight.unflatten(1, lead), layout.topologies, strict=True)),
            *self.scale.unflatten(1, lead),
            *dCs.values(),
            *dBs.values(),
        ]


def _stack_plans(plans: list[Any], name: str) -> Any:
    """An array of each plan, ``[D, ·]``, padded with zeros."""
    arrays = [getattr(p, name) for p in plans]
    size = max(1, *(a.size for a in arrays))
    return np.stack([np.pad(a, (0, size - a.size)) for a in arrays])
