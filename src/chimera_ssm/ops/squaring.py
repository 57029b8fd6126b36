"""`Squaring`: the paper's way for accelerators, with matrix products only (Theorem 4.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.topology import Topology


@dataclass(frozen=True)
class Squaring(Solver):
    """Exact on any acyclic topology: ``L = (I + A)(I + A²)(I + A⁴)…``, ⌈log₂(ℓ+1)⌉ factors for longest path ℓ.

    T³ multiplications for each factor and each power.
    """

    def unsupported_reason(self, topology: Topology) -> str | None:
        if topology.is_acyclic:
            return None
        return "its product is finite only without cycles, and this topology has some"

    def algorithm(self, topology: Topology) -> str:
        return "squaring"

    def column_work(self, topology: Topology) -> int:
        return int((topology.part_sizes**2).sum())


class SquaredSeries:
    """L itself, from A with Aˡ⁺¹ = 0 for longest path ℓ."""

    def __init__(self, topology: Topology, weight: Tensor):
        plan = topology.tensors("block_plan", weight.device)
        self.plan, power = plan, dense_blocks(plan, weight)
        self.mask = power + torch.eye(plan.shape[1], dtype=weight.dtype, device=weight.device)
        for _ in range(topology.longest_path.bit_length() - 1):
            power = power @ power
            self.mask = self.mask + self.mask @ power

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        return join(self.plan, (self.mask.mT if transpose else self.mask) @ split(self.plan, rhs))


OPERATIONS = {"factorize": Operation(SquaredSeries)}
