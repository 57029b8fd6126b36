"""`Elimination` on the CPU by Numba kernels: the same factors and solves, and a mix through masks that fit the cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from chimera_ssm.topology import Topology

#: Numbers of a block of right-hand sides: half of a second-level cache of half a megabyte in float32.
_BLOCK = 1 << 16
#: Multiplications below which a second thread costs more than it saves.
_SMALL = 1 << 17


class CompiledLDU:
    """Factors of I − A for weights ``[G, E]``; −L, −U off their unit diagonals ``[G, F]``, and D⁻¹ ``[G, T]``."""

    def __init__(self, topology: Topology, weight: Tensor):
        from chimera_ssm.solvers.kernels.lu import LANES, factorise
        from chimera_ssm.solvers.kernels.lu_plan import lu_plan
        from chimera_ssm.solvers.kernels.pool import run

        self.plan = lu_plan(topology)
        G, F = weight.shape[0], self.plan.lower_column.size
        self.lower, self.upper = weight.new_empty(G, F), weight.new_empty(G, F)
        self.inverse = weight.new_empty(G, topology.num_nodes)
        tasks = len(topology.parts) * -(-G // LANES)
        arrays = numpy(weight, self.lower, self.upper, self.inverse)
        run(factorise, tasks, self.plan, *arrays, parallel=8 * tasks * F > _SMALL)

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``(I − A)⁻¹ @ rhs``, or transposed: the same with L and U exchanged; ``[G, T, K]``."""
        from chimera_ssm.solvers.kernels.lu import solve
        from chimera_ssm.solvers.kernels.pool import run

        ahead, back = self.transposed() if transpose else (self.lower, self.upper)
        G, T, K = rhs.shape
        x = rhs.new_empty(G, T, K)
        if x.numel() == 0:
            return x
        parts = self.plan.part.size - 1
        largest = max(b - a for a, b in zip(self.plan.part, self.plan.part[1:], strict=False))
        width = min(-(-K // 8) * 8, max(32, _BLOCK // largest // 32 * 32))
        tasks = G * parts * -(-K // width)
        flat, strides = flatten(rhs)
        work = G * K * (T + 2 * ahead.shape[1])
        run(solve, tasks, width, self.plan, *numpy(ahead, back, self.inverse, flat), *strides, *numpy(x),
            parallel=work > _SMALL)  # fmt: skip
        return x

    def transposed(self) -> tuple[Tensor, Tensor]:
        """−Uᵀ and −Lᵀ, row by row."""
        rows = [torch.from_numpy(x) for x in (self.plan.upper_pair, self.plan.lower_pair)]
        return self.upper.index_select(1, rows[0]), self.lower.index_select(1, rows[1])


def flatten(x: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The memory of ``x [G, T, K]`` in one row, and the strides of heads and rows; copied if columns are apart."""
    if x.stride(2) != 1:
        x = x.contiguous()
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((extent,), (1,)), (x.stride(0), x.stride(1))


def numpy(*tensors: Tensor) -> list[Any]:
    """Contiguous arrays of the same numbers."""
    return [x.detach().contiguous().numpy() for x in tensors]
