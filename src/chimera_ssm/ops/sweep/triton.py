"""Mixes on grids with two axes by Triton kernels: see `chimera_ssm.ops.sweep.triton_kernels`."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from chimera_ssm.gpu.launch import launch, triton_operator
from chimera_ssm.gpu.matmul import low_dtype, precision, uses_tensor_cores
from chimera_ssm.ops.autograd import double_backward_via, in_float32, save_arguments, split_args, values_wanted
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.mixing import add_masks
from chimera_ssm.ops.sweep import triton_kernels as kernels
from chimera_ssm.ops.sweep.solver import is_small_grid
from chimera_ssm.ops.terms import Term, pack_terms, unpack_terms
from chimera_ssm.topology import GridDAG

#: DAGs whose directions fit into an integer.
_MOST = 30
#: Warps of a program.
_WARPS = 8
#: Programs that keep a GPU busy, and how many numbers they may write to scratch memory.
_PROGRAMS, _SCRATCH = 512, 1 << 25


def supports(terms: list[Term], V: Tensor) -> bool:
    """Whether the topologies are DAGs of one grid with two axes of at most 64 nodes."""
    topologies = [term.topology for term in terms]
    shapes = {t.shape for t in topologies if isinstance(t, GridDAG)}
    return len(shapes) == 1 and len(terms) <= _MOST and all(map(is_small_grid, topologies))


def mix(terms: list[Term], V: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on DAGs of one grid."""
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
    grid = _Rows(V, weight, scale, C, B, shape, right)
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
    grid, grad = _Rows(V, weight, scale, C, B, shape, right), grad.contiguous()
    dV, dscale = grid.value_gradients(grad, down)
    dweight = grid.weight_gradients(grad, down, right)
    dC = grid.key_gradients(grid.B, grad, grid.V, down, TRANSPOSED=False)
    dB = grid.key_gradients(grid.C, grid.V, grad, down, TRANSPOSED=True)
    wanted = weight, scale, C, B
    return [dV, *(x.view(w.shape).to(w.dtype) for x, w in zip((dweight, dscale, dC, dB), wanted, strict=True))]


def largest_blocks(width: int, tensor_cores: bool) -> tuple[int, int, int]:
    """What fits into registers: nodes of a block, and blocks of N or P that are summed over and that are written."""
    if width == 16:
        return 64, 16, 64
    return 16 if width == 64 and not tensor_cores else 32, 32, 64


class _Rows:
    """A mix on DAGs of a grid, in blocks of its rows.

    Args:
        V: ``[Z, H, T, P]``.
        weight: ``[D, Z, H, E]``.
        scale: ``[D, Z, H, T]``.
        C: ``[D, Z, G, T, N]``.
        B: ``[D, Z, G, T, N]``.
        shape: of the grid.
        right: a bit for each DAG.
    """

    def __init__(self, V: Tensor, weight: Tensor, scale: Tensor, C: Tensor, B: Tensor, shape: list[int], right: int):
        (Z, H, T, P), (self.D, _, G, _, N) = V.shape, C.shape
        self.heads, self.groups, self.share = Z * H, Z * G, H // G
        self.V, self.weight, self.scale, self.C, self.B = (x.contiguous() for x in (V, weight, scale, C, B))
        self.shape, self.T, self.E, self.N, self.P = shape, T, weight.shape[-1], N, P
        height, width = shape
        self.width = max(16, triton.next_power_of_2(width))
        self.nodes, self.inner, self.outer = largest_blocks(self.width, uses_tensor_cores(V.dtype))
        self.blocks = -(-height * self.width // self.nodes)
        self.masks = self.empty(self.D, self.heads, height, self.width, self.width)
        launch(
            kernels.row_masks, (height, self.heads, self.D),
            self.weight, self.masks, right, height, width, self.E, WP=self.width,
        )  # fmt: skip

    def empty(self, *shape: int) -> Tensor:
        """An uninitialized tensor of float32."""
        return torch.empty(shape, dtype=torch.float32, device=self.V.device)

    def block_sizes(self, **largest: int) -> dict[str, int]:
        """Number and size of the blocks of N and of P, of at most these sizes."""
        sizes = {}
        for name, most in largest.items():
            size, width = getattr(self, name), min(most, max(16, triton.next_power_of_2(getattr(self, name))))
            sizes |= {f"{name}B": -(-size // width), f"B{name}": width}
        return sizes

    def launch(self, kernel: Any, programs: tuple[int, ...], sizes: dict[str, int], *args: Any, **others: Any) -> None:
        """Launch a kernel with these block sizes, and the numbers that all kernels take."""
        numbers = {"height": self.shape[0], "width": self.shape[1], "heads": self.heads, "share": self.share}
        numbers |= {name: getattr(self, name) for name in "TENP"}
        constants = {
            "BI": self.nodes, "WP": self.width, "LOW": low_dtype(self.V.dtype), "PREC": precision(),
            "num_warps": _WARPS, "num_stages": 1,
        }  # fmt: skip
        launch(kernel, programs, self.weight, self.scale, *args, **numbers, **others, **sizes, **constants)

    def value_gradients(self, grad: Tensor, down: int) -> tuple[Tensor, Tensor]:
        """Gradients of V and of the scales."""
        blocks = self.block_sizes(N=self.inner, P=self.outer)
        dV, dscale = torch.empty_like(self.V), self.empty(blocks["PB"], *self.scale.shape)
        programs = self.blocks, self.heads, blocks["PB"]
        given = self.C, self.B, self.V, grad, self.masks, dscale, dV, down
        self.launch(kernels.grid_value_gradients, programs, blocks, *given, D=self.D)
        return dV, _summed(dscale)

    def key_gradients(self, keys: Tensor, left: Tensor, right: Tensor, down: int, TRANSPOSED: bool) -> Tensor:
        """The gradient of C from B as ``keys``, or of B from C; see the kernel."""
        wanted = max(1, min(self.share, _PROGRAMS // (self.blocks * self.groups * self.D)))
        slots = next(n for n in range(wanted, 0, -1) if self.share % n == 0)
        blocks, out = self.block_sizes(N=self.outer, P=self.inner), self.empty(slots, *keys.shape)
        programs = self.blocks, self.groups * slots, self.D * blocks["NB"]
        given, each = (keys, left, right, self.masks, out, down), self.share // slots
        self.launch(kernels.grid_key_gradients, programs, blocks, *given, each=each, TRANSPOSED=TRANSPOSED)
        return _summed(out)

    def weight_gradients(self, grad: Tensor, down: int, right: int) -> Tensor:
        """The gradient of the weights, in a sum for each slot."""
        slots = max(1, min(self.blocks, _PROGRAMS // (self.D * self.heads)))
        tasks, rows = slots * self.D * self.heads, self.shape[0] * self.nodes * self.width
        programs = min(tasks, _PROGRAMS, max(1, _SCRATCH // rows))
        blocks = self.block_sizes(N=self.inner, P=self.inner)
        dweight = torch.zeros(slots, *self.weight.shape, dtype=torch.float32, device=grad.device)
        given = self.C, self.B, self.V, grad, self.masks, self.empty(programs, rows), dweight, down
        numbers = {"right": right, "tasks": tasks, "slots": slots, "blocks": self.blocks}
        self.launch(kernels.grid_weight_gradients, (programs,), blocks, *given, **numbers)
        return _summed(dweight)


def _summed(x: Tensor) -> Tensor:
    return x[0] if x.shape[0] == 1 else x.sum(0)


_forward_operator, _backward_operator = triton_operator(grid_forward), triton_operator(grid_backward)


OPERATIONS = {"mix_by_mask": Operation(mix, supports), "mix_by_state": Operation(mix, supports)}
