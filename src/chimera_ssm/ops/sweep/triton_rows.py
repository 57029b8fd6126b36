"""Grids in blocks of their rows: what the two ways of `chimera_ssm.ops.sweep.triton` to compute a mix share."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from chimera_ssm.gpu.launch import launch
from chimera_ssm.gpu.matmul import low_dtype, precision, uses_tensor_cores
from chimera_ssm.ops.sweep import triton_kernels as kernels

#: Warps of a program.
_WARPS = 8
#: Programs that keep a GPU busy, and how many numbers they may write to scratch memory.
_PROGRAMS, _SCRATCH = 512, 1 << 25


def largest_blocks(width: int, tensor_cores: bool) -> tuple[int, int, int]:
    """What fits into registers: nodes of a block, and blocks of N or P that are summed over and that are written."""
    if width == 16:
        return 64, 16, 64
    return 16 if width == 64 and not tensor_cores else 32, 32, 64


class Rows:
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
        launch(kernel, programs, self.weight, self.scale, *args, **(numbers | sizes | constants | others))

    @property
    def slots(self) -> int:
        """Programs among which the heads of a group are divided where gradients are summed over heads."""
        wanted = max(1, min(self.share, _PROGRAMS // (self.blocks * self.groups * self.D)))
        return next(n for n in range(wanted, 0, -1) if self.share % n == 0)

    def value_gradients(self, grad: Tensor, down: int) -> tuple[Tensor, Tensor]:
        """Gradients of V and of the scales."""
        blocks = self.block_sizes(N=self.inner, P=self.outer)
        dV, dscale = torch.empty_like(self.V), self.empty(blocks["PB"], *self.scale.shape)
        programs = self.blocks, self.heads, blocks["PB"]
        given = self.C, self.B, self.V, grad, self.masks, dscale, dV, down
        self.launch(kernels.grid_value_gradients, programs, blocks, *given, D=self.D)
        return dV, summed(dscale)

    def key_gradients(self, keys: Tensor, left: Tensor, right: Tensor, down: int, TRANSPOSED: bool) -> Tensor:
        """The gradient of C from B as ``keys``, or of B from C; see the kernel."""
        slots = self.slots
        blocks, out = self.block_sizes(N=self.outer, P=self.inner), self.empty(slots, *keys.shape)
        programs = self.blocks, self.groups * slots, self.D * blocks["NB"]
        given, each = (keys, left, right, self.masks, out, down), self.share // slots
        self.launch(kernels.grid_key_gradients, programs, blocks, *given, each=each, TRANSPOSED=TRANSPOSED)
        return summed(out)

    def weight_gradients(
        self, grad: Tensor, down: int, right: int, scores: Tensor | None = None, products: Tensor | None = None
    ) -> Tensor:
        """The gradient of the weights, in a sum for each slot; from ``C Bᵀ`` and ``g Vᵀ`` if they are given."""
        slots = max(1, min(self.blocks, _PROGRAMS // (self.D * self.heads)))
        tasks, rows = slots * self.D * self.heads, self.shape[0] * self.nodes * self.width
        programs = min(tasks, _PROGRAMS, max(1, _SCRATCH // rows))
        blocks = self.block_sizes(N=self.inner, P=self.inner)
        dweight = torch.zeros(slots, *self.weight.shape, dtype=torch.float32, device=grad.device)
        left, right_ = (self.C, self.V) if scores is None else (scores, products)
        given = left, self.B, right_, grad, self.masks, self.empty(programs, rows), dweight, down
        numbers = {"right": right, "tasks": tasks, "slots": slots, "blocks": self.blocks}
        numbers |= {"STORED": scores is not None}
        if scores is not None and self.V.dtype == torch.float32:
            numbers |= {"num_warps": 2 * _WARPS}  # with fewer, it needs a stack
        self.launch(kernels.grid_weight_gradients, (programs,), blocks, *given, **numbers)
        return summed(dweight)


def summed(x: Tensor) -> Tensor:
    """The sum over the first dimension."""
    return x[0] if x.shape[0] == 1 else x.sum(0)
