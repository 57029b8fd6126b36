"""`Elimination`: sparse LU without pivoting on a fill-reducing order; undirected lines by two scans."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.solvers.base import ExactResolvent, Resolvent, Solver
from chimera_ssm.solvers.sweep import node_major, scan_mix_work, sweep
from chimera_ssm.solvers.undirected_line import UndirectedPathResolvent
from chimera_ssm.topology import Topology
from chimera_ssm.topology.base import LevelPlan
from chimera_ssm.topology.elimination import EliminationPlan, TooMuchFill

#: Entries of L + U above which the factors are refused: half a gigabyte for each head in float32.
MAX_ENTRIES = 1 << 27


@dataclass(frozen=True)
class Elimination(Solver):
    """Exact on any topology whose factors stay sparse, in nnz(L + U) multiplications per right-hand side.

    ``I − A = L D U`` in an order found once for each topology; then a sweep up the elimination tree and one
    down. Trees have no fill. Without pivoting this is stable where I − A is diagonally dominant, as with
    `graph_adjacency` whatever its data, and on acyclic graphs; for other weights use `Dense`.
    """

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:  # noqa: D102
        if topology.undirected_paths is not None:
            return UndirectedPathResolvent(topology, weight)
        return ExactResolvent(topology, weight, LDU(topology, weight.detach()))

    def column_work(self, topology: Topology) -> int:  # noqa: D102
        if topology.undirected_paths is not None:
            return 2 * topology.num_nodes
        return elimination_plan(topology).fill

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:  # noqa: D102
        if topology.undirected_paths is None:
            return super().state_work(topology, N, P, groups_per_head)
        return 2 * scan_mix_work(topology.num_nodes, N, P, groups_per_head)


class LDU:
    """Factors of I − A: unit triangular L and U as weights of sweeps along the plan's pairs, and the pivots."""

    def __init__(self, topology: Topology, weight: Tensor):
        plan = elimination_plan(topology)
        device = weight.device
        self.plan = LevelPlan(*(torch.from_numpy(x).to(device) for x in (plan.early, plan.early, plan.late)), ())
        self.diagonal, self.lower, self.upper = _entries(topology, plan, weight)
        for level in range(len(plan.bounds) - 2):
            self._eliminate(plan, level)

    def _eliminate(self, plan: EliminationPlan, level: int) -> None:
        ...

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        ...
