"""Mixes on small grids by Triton kernels, with C Bᵀ and g Vᵀ in memory: see `triton_stored_kernels`.

Both are batched products of PyTorch, the first shared by the heads of a group. They have T² numbers for each group and
head, so that this is for grids where that is little, and computing them again for each head, DAG and kernel is more.
"""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.gpu.matmul import uses_tensor_cores
from chimera_ssm.ops.broadcasting import without_autocast
from chimera_ssm.ops.sweep import triton_stored_kernels as kernels
from chimera_ssm.ops.sweep.triton_rows import Rows, summed

#: The longest side of a grid whose products are stored, and channels that fit into registers.
_LONGEST_SIDE, _CHANNELS = 16, 128


def stores(shape: list[int], down: int) -> bool:
    """Whether products are stored on a grid, whose DAGs that lead down, with a bit in ``down``, come first."""
    return max(shape) <= _LONGEST_SIDE and down & (down + 1) == 0


class StoredRows(Rows):
    """`Rows` with stored products; the DAGs that lead down come first."""

    def outputs(self, down: int) -> Tensor:
        """``y``, of the shape and dtype of V."""
        y, blocks = torch.empty_like(self.V), self.block_sizes(P=_CHANNELS)
        programs, S = (self.blocks, self.heads, blocks["PB"]), self.scores()
        self.launch(kernels.stored_outputs, programs, blocks, S, self.V, self.masks, y, down.bit_count(), D=self.D)
        return y

    def gradients(self, grad: Tensor, down: int, right: int) -> list[Tensor]:
        """Gradients of V, weight, scale, C and B."""
        S = self.scores()
        X = self.product(grad, self.V.mT)
        dV, dscale, blocks = torch.empty_like(self.V), torch.empty_like(self.scale), self.block_sizes(P=_CHANNELS)
        given = S, X, grad, self.masks, dscale, dV, down.bit_count()
        self.launch(kernels.stored_value_gradients, (self.blocks, self.heads, blocks["PB"]), blocks, *given, D=self.D)
        # In full float32, with stored products, this kernel would need a stack.
        stored = (S, X) if uses_tensor_cores(self.V.dtype) else ()
        dweight = self.weight_gradients(grad, down, right, *stored)
        dS = torch.zeros(self.slots, *S.shape, dtype=torch.float32, device=S.device)
        programs, each = (self.blocks, self.groups * self.slots, self.D), self.share // self.slots
        self.launch(kernels.stored_score_gradients, programs, {}, X, self.masks, dS, down, each=each)
        dS = summed(dS)
        return [dV, dweight, dscale, self.product(dS, self.B.float()), self.product(dS.mT, self.C.float())]

    def scores(self) -> Tensor:
        """``C Bᵀ``, ``[D, Z, G, T, T]``."""
        return self.product(self.C, self.B.mT)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """``a @ b`` in their dtype."""
        with without_autocast(a):
            return a @ b
