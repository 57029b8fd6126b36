"""`Sweep`: acyclic graphs in topological order, a level of nodes at a time; lines by chunked scans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from chimera_ssm.ops import compiled
from chimera_ssm.ops.contract import ExactResolvent, Solver
from chimera_ssm.ops.scan.torch import CHUNK, PathResolvent
from chimera_ssm.topology import Topology
from chimera_ssm.topology.plans import LevelPlan, Schedule

#: How much more a multiplication costs in the state form than in the mask form: states go through memory, masks stay in
#: a cache. Measured where both forms take equally long, on grids of 14² to 32². On lines it costs as much in both.
_STATE_PENALTY = 2.1


@dataclass(frozen=True)
class Sweep(Solver):
    """Exact on any acyclic topology, in (T + E) multiplications for each right-hand side.

    ``x_i = b_i + Σ_{j∈p(i)} A_ij x_j``, all nodes of a level at once.
    """

    sweeps: ClassVar[bool] = True

    def why_not(self, topology: Topology) -> str | None:
        return None if topology.is_acyclic else "it sweeps in topological order, and this topology has cycles"

    def resolvent(self, topology: Topology, weight: Tensor) -> ExactResolvent:
        if compiled.usable(weight):
            return ExactResolvent(topology, weight, lambda w: compiled.CompiledSweep(topology, w))
        if topology.directed_paths is not None:
            return PathResolvent(topology, weight)
        plan = topology.tensors("level_plan", weight.device)
        return ExactResolvent(topology, weight, lambda w: LevelFactors(plan, w))

    def column_work(self, topology: Topology) -> int:
        return topology.num_nodes + topology.num_edges

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        if topology.directed_paths is None:
            return _STATE_PENALTY * super().state_work(topology, N, P, groups_per_head)
        return scan_mix_work(topology.num_nodes, N, P, groups_per_head)


class LevelFactors:
    """Weights of an acyclic graph in the order of its levels, heads side by side."""

    def __init__(self, plan: LevelPlan, weight: Tensor):
        self.schedule = plan.schedule
        self.weight = weight.t().index_select(0, plan.edges)

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        x = node_major(rhs)
        sweep(x, self.schedule, self.weight, transpose)
        return x.transpose(0, 1)


def sweep(x: Tensor, schedule: Schedule, weight: Tensor, transpose: bool) -> None:
    """Substitute group by group, in place: ``x [T, G, K]``, weights ``[E, G]`` in the order of the schedule."""
    flat = x.view(x.shape[0], -1)
    spans = list(zip(schedule.bounds, schedule.bounds[1:], strict=False))
    for first, last in reversed(spans) if transpose else spans:
        source, target = schedule.source[first:last], schedule.target[first:last]
        if transpose:
            source, target = target, source
        message = weight[first:last].unsqueeze(-1) * x.index_select(0, source)
        flat.index_add_(0, target, message.flatten(1))


def node_major(x: Tensor) -> Tensor:
    """A copy of ``[G, T, K]``, always, laid out as ``[T, G, K]``: rows of a level are gathered and added whole."""
    return x.transpose(0, 1).clone(memory_format=torch.contiguous_format)


def scan_mix_work(nodes: int, N: int, P: int, groups_per_head: float) -> float:
    """Multiplications of `chimera_ssm.ops.scan.torch.line_mix`, per head."""
    return 2 * nodes * (min(CHUNK, nodes) * (P + N * groups_per_head) + 2 * N * P)
