"""Mixes on grids with two axes by Triton kernels: see `chimera_ssm.ops.sweep.triton_kernels`."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chimera_ssm.gpu.launch import triton_operator
from chimera_ssm.ops.autograd import double_backward_via, in_float32, save_arguments, split_args, values_wanted
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.mixing import add_masks
from chimera_ssm.ops.sweep import triton_kernels as kernels
from chimera_ssm.ops.sweep.solver import is_small_grid
from chimera_ssm.ops.sweep.triton_rows import Rows
from chimera_ssm.ops.sweep.triton_stored import StoredRows, stores
from chimera_ssm.ops.terms import Term, pack_terms, unpack_terms
from chimera_ssm.topology import GridDAG

#: DAGs whose directions fit into an integer.
_MOST = 30


def supports(terms: list[Term], V: Tensor) -> bool:
    """Whether the topologies are DAGs of one grid with two axes of at most 64 nodes."""
    topologies = [term.topology for term in terms]
    shapes = {t.shape for t in topologies if isinstance(t, GridDAG)}
    return len(shapes) == 1 and len(terms) <= _MOST and all(map(is_small_grid, topologies))


def mix(terms: list[Term], V: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on DAGs of one grid; those whose edges lead down come first."""
    terms = sorted(terms, key=lambda term: directions([cast("GridDAG", term.topology)])[1], reverse=True)
    topologies, tensors = unpack_terms(terms, V)
    return _GridMix.apply(V, topologies, *map(torch.stack, split_args(tuple(tensors))))


def _plain(V: Tensor, topologies: list[GridDAG], *stacked: Tensor) -> Tensor:
    return add_masks(pack_terms("sweep", topologies, tuple(x for tensors in stacked for x in tensors)), V)


class _GridMix(torch.autograd.Function):
    """The mix, from weights ``[D, Z, H, E]``, scales ``[D, Z, H, T]``, C and B ``[D, Z, G, T, N]``."""

    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[GridDAG], *stacked: Tensor) -> Tensor:
        save_arguments(ctx, (V, topologies, *stacked))
        return _forward_operator(V, *stacked, *directions(topologies)) if values_wanted() else torch.empty_like(V)

    @staticmethod
    @double_backward_via(in_float32(_plain))
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        V, _, *stacked = ctx.saved_tensors
        dV, *gradients = _backward_operator(*grads, V, *stacked, *directions(ctx.others[1]))
        return dV, None, *gradients


def directions(topologies: list[GridDAG]) -> tuple[list[int], int, int]:
    """The shape of the grid; and a bit for each DAG, set if its edges lead down, and if they lead to the right."""
    down, right = (sum((1 - t.corner[axis]) << d for d, t in enumerate(topologies)) for axis in (0, 1))
    return list(topologies[0].shape), down, right


def grid_forward(
    V: Tensor, weight: Tensor, scale: Tensor, C: Tensor, B: Tensor, shape: list[int], down: int, right: int
) -> Tensor:
    """``y``, of the shape and dtype of V."""
    if stores(shape, down):
        return StoredRows(V, weight, scale, C, B, shape, right).outputs(down)
    grid = Rows(V, weight, scale, C, B, shape, right)
    y, blocks = torch.empty_like(grid.V), grid.block_sizes(N=grid.inner, P=grid.outer)
    programs = grid.blocks, grid.heads, blocks["PB"]
    grid.launch(kernels.grid_outputs, programs, blocks, grid.C, grid.B, grid.V, grid.masks, y, down, D=grid.D)
    return y


def grid_backward(
    grad: Tensor,
    V: Tensor,
    weight: Tensor,
    scale: Tensor,
    C: Tensor,
    B: Tensor,
    shape: list[int],
    down: int,
    right: int,
) -> list[Tensor]:
    """Gradients of V, weight, scale, C and B."""
    grad, wanted = grad.contiguous(), (weight, scale, C, B)
    if stores(shape, down):
        dV, *gradients = StoredRows(V, weight, scale, C, B, shape, right).gradients(grad, down, right)
    else:
        grid = Rows(V, weight, scale, C, B, shape, right)
        dV, dscale = grid.value_gradients(grad, down)
        dweight = grid.weight_gradients(grad, down, right)
        dC = grid.key_gradients(grid.B, grad, grid.V, down, TRANSPOSED=False)
        dB = grid.key_gradients(grid.C, grid.V, grad, down, TRANSPOSED=True)
        gradients = [dweight, dscale, dC, dB]
    return [dV, *(x.view(w.shape).to(w.dtype) for x, w in zip(gradients, wanted, strict=True))]


_forward_operator, _backward_operator = triton_operator(grid_forward), triton_operator(grid_backward)


OPERATIONS = dict.fromkeys(("mix_by_mask", "mix_by_state"), Operation(mix, supports, takes_half=True))
