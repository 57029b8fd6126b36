"""`Dense`: LU with pivoting, or a triangular solve, on matrices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chimera_ssm.solvers.base import ExactResolvent, Solver
from chimera_ssm.solvers.blocks import dense_blocks, join, split
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import BlockPlan


@dataclass(frozen=True)
class Dense(Solver):
    """Exact on any topology, for any weights that leave I − A invertible; T² memory and up to T³ work."""

    def resolvent(self, topology: Topology, weight: Tensor) -> ExactResolvent:
        if topology.is_acyclic:
            plan = topology.tensors("sorted_block_plan", weight.device)
            return ExactResolvent(topology, weight, lambda w: Triangular(plan, w))
        plan = topology.tensors("block_plan", weight.device)
        return ExactResolvent(topology, weight, lambda w: PivotedLU(plan, w))

    def column_work(self, topology: Topology) -> int:
        return int((topology.part_sizes**2).sum())


class Triangular:
    """I − A of an acyclic graph in topological order: unit lower triangular."""

    def __init__(self, plan: BlockPlan, weight: Tensor):
        self.plan, self.matrix = plan, -dense_blocks(plan, weight)  # the unit diagonal is implied

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        matrix = self.matrix.mT if transpose else self.matrix
        x = torch.linalg.solve_triangular(matrix, split(self.plan, rhs), upper=transpose, unitriangular=True)
        return join(self.plan, x)


class PivotedLU:
    """LU factors of I − A with partial pivoting."""

    def __init__(self, plan: BlockPlan, weight: Tensor):
        unit = torch.eye(plan.shape[1], dtype=weight.dtype, device=weight.device)
        self.plan, self.factors = plan, torch.linalg.lu_factor_ex(unit - dense_blocks(plan, weight))

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        x = torch.linalg.lu_solve(self.factors.LU, self.factors.pivots, split(self.plan, rhs), adjoint=transpose)
        return join(self.plan, x)
