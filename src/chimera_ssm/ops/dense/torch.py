"""Dense matrices in PyTorch: a triangular solve, or LU with pivoting."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.ops.contract import Factors
from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import BlockPlan


def factorize(topology: Topology, weight: Tensor) -> Factors:
    """A unit triangular matrix for an acyclic topology, LU factors with pivoting for others."""
    if topology.is_acyclic:
        return Triangular(topology.tensors("sorted_block_plan", weight.device), weight)
    return PivotedLU(topology.tensors("block_plan", weight.device), weight)


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
        self.plan, (self.factors, self.pivots) = plan, lu_factor(unit - dense_blocks(plan, weight))

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        x = torch.linalg.lu_solve(self.factors, self.pivots, split(self.plan, rhs), adjoint=transpose)
        return join(self.plan, x)


def lu_factor(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """LU factors with partial pivoting and the pivots of each matrix of a batch ``[..., S, S]``; zero pivots pass.

    On CPUs one matrix after the other: PyTorch factorises the matrices of a batch in threads, and within these MKL's
    own threads, switched on by `torch.set_num_threads`, leave wrong factors of matrices with more than 140 rows.
    """
    if matrix.device.type != "cpu":
        return torch.linalg.lu_factor_ex(matrix)[:2]
    factors = torch.empty_like(matrix, memory_format=torch.contiguous_format).mT  # by columns, as LAPACK writes them
    pivots, info = torch.empty(matrix.shape[:-1], dtype=torch.int32), torch.empty((), dtype=torch.int32)
    for x, *out in zip(matrix.flatten(0, -3), factors.flatten(0, -3), pivots.flatten(0, -2), strict=True):
        torch.linalg.lu_factor_ex(x, out=(*out, info))
    return factors, pivots


OPERATIONS = {"factorize": Operation(factorize)}
