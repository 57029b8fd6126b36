"""`Dense`: LU with pivoting, or a triangular solve, on matrices."""

from __future__ import annotations

from dataclasses import dataclass

from chimera_ssm.ops.contract import Solver
from chimera_ssm.topology import Topology


@dataclass(frozen=True)
class Dense(Solver):
    """Exact on any topology, for any weights that leave I − A invertible; T² memory and up to T³ work."""

    def algorithm(self, topology: Topology) -> str:
        return "dense"

    def column_work(self, topology: Topology) -> int:
        return int((topology.part_sizes**2).sum())
