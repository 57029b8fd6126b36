"""Small graphs as dense matrices, which a Triton kernel inverts: see `chimera_ssm.ops.dense.triton_kernels`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from chimera_ssm.gpu.launch import launch, triton_operator
from chimera_ssm.ops.autograd import double_backward_via, save_arguments, values_wanted
from chimera_ssm.ops.dense.triton_kernels import invert
from chimera_ssm.ops.dense_blocks import join, split
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.mixing import add_masks
from chimera_ssm.ops.terms import Term, pack_terms, unpack_terms
from chimera_ssm.topology import Topology

#: The largest matrix, and columns of a block.
_LARGEST, _BLOCK = 256, 16


def supports(topology: Topology, weight: Tensor) -> bool:
    """Whether the graph has cycles and its parts are small."""
    return not topology.is_acyclic and int(topology.part_sizes.max()) <= _LARGEST


class Inverse:
    """L itself, one matrix for each part."""

    def __init__(self, topology: Topology, weight: Tensor):
        self.plan = topology.tensors("block_plan", weight.device)
        self.mask = _operator(weight, self.plan.entry, *self.plan.shape)

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        return join(self.plan, (self.mask.mT if transpose else self.mask) @ split(self.plan, rhs))

    def rows(self) -> Tensor:
        """The mask, each row within its own part."""
        return join(self.plan, self.mask)


def supports_mix(terms: list[Term], V: Tensor) -> bool:
    """Whether there is one term, whose topology has cycles and small parts."""
    return len(terms) == 1 and supports(terms[0].topology, terms[0].weight)


def mix(terms: list[Term], V: Tensor) -> Tensor:
    """``(L ⊙ C B̄ᵀ) V``, in few launches."""
    topologies, tensors = unpack_terms(terms, V)
    return _Mix.apply(V, topologies, *tensors)


def _plain(V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
    return add_masks(pack_terms("dense", topologies, tensors), V)


class _Mix(torch.autograd.Function):
    """The mix on blocks, one for each part, and its adjoint.

    With v = β V, S = C Bᵀ and M = L ⊙ S:

        y = M v        ∂v = Mᵀ g        ∂S = Σ_heads L ⊙ g vᵀ        ∂A = Lᵀ (S ⊙ g vᵀ) Lᵀ

    In the padding of a block is another node of its part. L is the identity there, so that nothing comes of it.
    """

    @staticmethod
    def forward(
        ctx: Any, V: Tensor, topologies: list[Topology], weight: Tensor, scale: Tensor, C: Tensor, B: Tensor
    ) -> Tensor:
        (topology,), device = topologies, V.device
        plan, nodes = topology.tensors("block_plan", device), topology.cached(nodes_of_blocks, device=device)
        L = _operator(weight.flatten(0, 1), plan.entry, *plan.shape).unflatten(0, weight.shape[:2])
        v, C_, B_ = (_split(x, nodes, plan.shape) for x in (scale.unsqueeze(-1) * V, C, B))
        save_arguments(ctx, (V, topologies, weight, scale, C, B), L, v, C_, B_)
        return join(plan, _masked(L, C_ @ B_.mT) @ v) if values_wanted() else torch.empty_like(V)

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (V, _, _, scale, _, _, L, v, C, B), (topology,) = ctx.saved_tensors, ctx.others[1]
        plan, nodes = topology.tensors("block_plan", V.device), topology.cached(nodes_of_blocks, device=V.device)
        g, S = _split(grads[0], nodes, plan.shape), C @ B.mT
        dv, products = join(plan, _masked(L, S).mT @ g), g @ v.mT
        dS = (L * products).unflatten(1, (C.shape[1], -1)).sum(2)
        dC, dB = join(plan, dS @ B), join(plan, dS.mT @ C)
        dA = L.mT @ _masked(products, S) @ L.mT
        dweight = dA.flatten(2).index_select(-1, plan.entry)
        return scale.unsqueeze(-1) * dv, None, dweight, (dv * V).sum(-1), dC, dB


def nodes_of_blocks(topology: Topology) -> np.ndarray:
    """The node at each position of the blocks; in the padding, the first node of the part."""
    nodes = topology.block_plan.node.reshape(topology.block_plan.shape)
    return np.where(nodes == topology.num_nodes, nodes[:, :1], nodes).ravel()


def _split(x: Tensor, nodes: Tensor, shape: tuple[int, int]) -> Tensor:
    """Rows of nodes as rows of blocks, ``[Z, heads, blocks, S, K]``."""
    return x.index_select(2, nodes).unflatten(2, shape)


def _masked(L: Tensor, S: Tensor) -> Tensor:
    """``L ⊙ S``, where heads ``[Z, H, …]`` of a group share S ``[Z, G, …]``."""
    return (L.unflatten(1, (S.shape[1], -1)) * S.unsqueeze(2)).flatten(1, 2)


def block_inverse(weight: Tensor, entry: Tensor, blocks: int, size: int) -> Tensor:
    """``(I − A)⁻¹``, ``[G, blocks, S, S]``, from weights ``[G, E]`` at the places ``entry`` among all entries."""
    X = weight.new_zeros(weight.shape[0], blocks * size * size).index_add_(1, entry, weight, alpha=-1)
    X = X.view(-1, blocks, size, size)
    X.diagonal(dim1=-2, dim2=-1).add_(1)
    return inverse(X)


def inverse(X: Tensor) -> Tensor:
    """The inverse of matrices ``[..., S, S]``, which are overwritten."""
    S = X.shape[-1]
    result, order = torch.empty_like(X), torch.empty(X.shape[:-1], dtype=torch.int32, device=X.device)
    size = max(16, triton.next_power_of_2(S))
    constants = {"SP": size, "BC": _BLOCK, "num_warps": 8 if size > 128 else 4, "num_stages": 1}
    launch(invert, (prod(X.shape[:-2]),), X, result, order, S, **constants)
    return result


_operator = triton_operator(block_inverse)

OPERATIONS = {
    "factorize": Operation(Inverse, supports),
    "mix_by_mask": Operation(mix, supports_mix),
    "mix_by_state": Operation(mix, supports_mix),
}
