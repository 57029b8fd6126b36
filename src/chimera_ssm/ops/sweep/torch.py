"""Acyclic graphs in PyTorch: substitution in topological order, a level of nodes at a time."""

from __future__ import annotations

from torch import Tensor

from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.spmm.torch import node_major, substitute_levels
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import LevelPlan


class LevelFactors:
    """Weights of an acyclic graph in the order of its levels, heads side by side."""

    def __init__(self, plan: LevelPlan, weight: Tensor):
        self.schedule = plan.schedule
        self.weight = weight.t().index_select(0, plan.edges)

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        x = node_major(rhs)
        substitute_levels(x, self.schedule, self.weight, transpose)
        return x.transpose(0, 1)


def factorize(topology: Topology, weight: Tensor) -> LevelFactors:
    """Factors of an acyclic graph."""
    return LevelFactors(topology.tensors("level_plan", weight.device), weight)


OPERATIONS = {"factorize": Operation(factorize)}
