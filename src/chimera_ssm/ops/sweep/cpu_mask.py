"""Mixes through masks on acyclic topologies, by CPU kernels."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import (
    double_backward_via,
    empty,
    joined_weights,
    not_a_view,
    save_arguments,
    split_args,
    values_wanted,
)
from chimera_ssm.ops.sweep import kernels_mask as kernels
from chimera_ssm.ops.sweep.cpu_small import mix_small, plain_mix
from chimera_ssm.ops.sweep.layout import Chunk, Layout, scratch
from chimera_ssm.ops.terms import Term, unpack_terms
from chimera_ssm.topology import Topology


def mix_by_mask(terms: list[Term], V: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on acyclic topologies."""
    topologies, tensors = unpack_terms(terms, V)
    pairs = [(id(term.C), id(term.B)) for term in terms]
    first_use = tuple(pairs.index(pair) for pair in pairs)
    layout = topologies[0].cached(_layout, tuple(topologies[1:]), V.shape, terms[0].C.shape, first_use, limit=64)
    if layout.small:
        return mix_small(V, layout, *tensors)
    if not torch.is_grad_enabled():
        return _forward(V, layout, tuple(tensors), store=False)[0]
    return _MaskMix.apply(V, layout, *tensors)


def _layout(
    topology: Topology, others: tuple[Topology, ...], V: torch.Size, C: torch.Size, first_use: tuple[int, ...]
) -> Layout:
    return Layout([topology, *others], V, C, first_use)


def _forward(V: Tensor, layout: Layout, tensors: tuple[Tensor, ...], store: bool) -> tuple[Tensor, list[Tensor]]:
    """The mix, and the products S of each chunk if they are to be stored."""
    inputs = _Inputs(layout, *split_args(tensors))
    v = layout.rows(V)
    y, kept = empty(*v.shape, like=v), []
    for chunk in layout.chunks:
        S = inputs.products(chunk, store)
        M = inputs.masks(chunk, S)
        torch.bmm(layout.narrowed(M), chunk.of(v), out=chunk.of(y))
        kept += [S] if store else []
    return layout.nodes(y, V.shape), kept


class _MaskMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, layout: Layout, *tensors: Tensor) -> Tensor:
        small = layout.products_are_small and any(ctx.needs_input_grad)
        y, products = _forward(V, layout, tensors, store=small) if values_wanted() else (torch.empty_like(V), [])
        save_arguments(ctx, (V, layout, *tensors), *products)
        return not_a_view(y)

    @staticmethod
    @double_backward_via(plain_mix)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        layout, (V, _, *saved) = ctx.others[1], ctx.saved_tensors
        count = 4 * len(layout.topologies)
        inputs, kept = _Inputs(layout, *split_args(tuple(saved[:count]))), saved[count:]
        v, g = layout.rows(V), layout.rows(grads[0])
        dV, gradients = empty(*v.shape, like=v), _Gradients(inputs)
        for number, chunk in enumerate(layout.chunks):
            S = kept[number] if kept else inputs.products(chunk, keep=False)
            M = inputs.masks(chunk, S)
            torch.bmm(layout.narrowed(M).mT, chunk.of(g), out=chunk.of(dV))
            torch.bmm(chunk.of(g), layout.widened("v", chunk.of(v)).mT, out=M)
            gradients.add(chunk, S, M)
        return layout.nodes(dV, V.shape), None, *gradients.of_tensors()


class _Inputs:
    """Weights and scales ``[D, heads, ·]``, C and B of a mix, and the matrices computed from them."""

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

    def products(self, chunk: Chunk, keep: bool) -> Tensor:
        """``S = C Bᵀ``, ``[pairs, groups, parts·side, columns]``; in new memory if it is to be stored."""
        layout, dtype = self.layout, self.weight.dtype
        shape = len(layout.pairs), chunk.heads // layout.share, layout.parts * layout.side, layout.columns
        S = empty(*shape, like=self.weight) if keep else scratch.get("S", dtype, *shape)
        for (C, B), out in zip(self.pairs, S.view(shape[0], -1, layout.side, layout.columns), strict=True):
            torch.bmm(chunk.of_groups(C), layout.widened("B", chunk.of_groups(B)).mT, out=out)
        return S

    def masks(self, chunk: Chunk, S: Tensor) -> Tensor:
        """``M = Σ_d L_d ⊙ C_d B̄_dᵀ``, ``[heads·parts, side, columns]``."""
        layout = self.layout
        M = scratch.get("M", S.dtype, chunk.heads, *S.shape[2:])
        threads.run(
            kernels.masks_forward, chunk.heads, chunk.start, layout.share, layout.forward_plan,
            self.weight.numpy(), self.scale.numpy(), S.numpy(), M.numpy(), work=len(layout.topologies) * M.numel(),
        )  # fmt: skip
        return M.view(-1, layout.side, layout.columns)


class _Gradients:
    """Gradients of weights, scales, and each pair's C and B, accumulated chunk by chunk."""

    def __init__(self, inputs: _Inputs):
        self.layout, self.inputs = inputs.layout, inputs
        self.weight, self.scale = torch.empty_like(inputs.weight), torch.empty_like(inputs.scale)
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def add(self, chunk: Chunk, S: Tensor, dM: Tensor) -> None:
        """Gradients of these heads for ``dM = g Vᵀ``."""
        layout, inputs, work = self.layout, self.inputs, dM.numel() * len(self.layout.topologies)
        splits = min(layout.share, -(-threads.threads_for(work) // (S.shape[0] * S.shape[1])))
        dS = scratch.get("dS", S.dtype, splits, *S.shape)
        threads.run(
            kernels.masks_backward, splits * S.shape[0] * S.shape[1], chunk.start, layout.share, splits,
            layout.backward_plan, inputs.weight.numpy(), inputs.scale.numpy(), S.numpy(),
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
