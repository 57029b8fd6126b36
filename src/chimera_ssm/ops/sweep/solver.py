"""`Sweep`: acyclic graphs in topological order; directed paths by chunked scans."""

from __future__ import annotations

from dataclasses import dataclass

from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.work import scan_mix_work
from chimera_ssm.topology import GridDAG, Topology

#: Cost of a multiplication in the state form relative to the mask form: states go through memory, masks stay in a
#: cache. Measured where both forms take equally long, on grids of 14² to 32². On lines both cost the same.
_STATE_PENALTY = 2.1
#: The longest side of a grid for which there are Triton kernels.
_LONGEST_SIDE = 64


@dataclass(frozen=True)
class Sweep(Solver):
    """Exact on any acyclic topology, in (T + E) multiplications for each right-hand side.

    ``x_i = b_i + Σ_{j∈p(i)} A_ij x_j`` in topological order.
    """

    def unsupported_reason(self, topology: Topology) -> str | None:
        return None if topology.is_acyclic else "it sweeps in topological order, and this topology has cycles"

    def algorithm(self, topology: Topology) -> str:
        return "sweep" if topology.directed_paths is None else "scan"

    def column_work(self, topology: Topology) -> int:
        return topology.num_nodes + topology.num_edges

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        if topology.directed_paths is None:
            return _STATE_PENALTY * super().state_work(topology, N, P, groups_per_head)
        return scan_mix_work(topology.num_nodes, N, P, groups_per_head)


def is_small_grid(topology: Topology) -> bool:
    """Whether this is a DAG of a grid with two axes of at most 64 nodes, for which there are Triton kernels."""
    return isinstance(topology, GridDAG) and topology.num_axes == 2 and max(topology.shape) <= _LONGEST_SIDE
