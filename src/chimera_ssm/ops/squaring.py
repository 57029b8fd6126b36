"""`Squaring`: the paper's way for accelerators, with matrix products only (Theorem 4.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chimera_ssm.ops.contract import ExactResolvent, Solver
from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import BlockPlan


@dataclass(frozen=True)
class Squaring(Solver):
    """Exact on any acyclic topology: ``L = (I + A)(I + A²)(I + A⁴)…``, ⌈log₂(ℓ+1)⌉ factors for longest path ℓ.

    T³ multiplications for each factor and each power.
    """

    def why_not(self, topology: Topology) -> str | None:
        if topology.is_acyclic:
            return None
        return "its product is finite only without cycles, and this topology has some"

    def resolvent(self, topology: Topology, weight: Tensor) -> ExactResolvent:
        plan = topology.tensors("block_plan", weight.device)
        return ExactResolvent(topology, weight, lambda w: SquaredSeries(plan, w, topology.longest_path))

    def column_work(self, topology: Topology) -> int:
        return int((topology.part_sizes**2).sum())


class SquaredSeries:
    """L itself, from A with Aˡ⁺¹ = 0."""

    def __init__(self, plan: BlockPlan, weight: Tensor, longest_path: int):
        self.plan, power = plan, dense_blocks(plan, weight)
        self.mask = power + torch.eye(plan.shape[1], dtype=weight.dtype, device=weight.device)
        for _ in range(longest_path.bit_length() - 1):
            power = power @ power
            self.mask = self.mask + self.mask @ power

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        return join(self.plan, (self.mask.mT if transpose else self.mask) @ split(self.plan, rhs))
