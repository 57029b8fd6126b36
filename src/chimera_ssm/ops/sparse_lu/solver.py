"""`SparseLU`: LU without pivoting on a fill-reducing ordering; undirected paths by two scans."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.contract import Resolvent, Solver, exact_resolvent
from chimera_ssm.ops.sparse_lu.pivoting import MAX_ENTRIES, is_accurate
from chimera_ssm.ops.work import scan_mix_work
from chimera_ssm.topology import Topology
from chimera_ssm.topology.symbolic_lu import TooMuchFill

#: Cost of a multiplication in the state form, which goes through memory, relative to the mask form (measured on
#: molecules and planar graphs of 64 to 4,096 nodes, forward and backward, with 4 and 12 heads).
_STATE_PENALTY = 2.5
#: Entries of the factors that take as long as the remaining work on the states of a node.
_NODE_ENTRIES = 8


@dataclass(frozen=True)
class SparseLU(Solver):
    """Exact on any topology whose factors stay sparse, in nnz(L + U) multiplications per right-hand side.

    ``I − A = L D U`` in an ordering computed once for each topology; then a sweep up the elimination tree and one
    down. Trees have no fill. Without pivoting this is stable on acyclic graphs and where I − A is diagonally dominant,
    as with `graph_adjacency` whatever its data, or similar to a positive definite matrix, as with
    `undirected_line_adjacency`. For other weights entries of the factors may grow: heads for which they do are solved
    by dense LU with pivoting, or refused where that would not fit.
    """

    def unsupported_reason(self, topology: Topology) -> str | None:
        if topology.undirected_paths is not None:
            return None
        try:
            topology.elimination_plan(MAX_ENTRIES)
        except TooMuchFill as error:
            return (
                f"its factors need at least {error.entries:,} entries, and about {error.filled:,} if they fill in as "
                f"those of a random graph do, {error.filled * 4 / 1e9:.1f} GB for each head in float32; at most "
                f"{MAX_ENTRIES:,} are allowed"
            )
        return None

    def algorithm(self, topology: Topology) -> str:
        return "sparse_lu" if topology.undirected_paths is None else "tridiagonal"

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:
        if topology.undirected_paths is not None:
            paths = dispatch.run("resolvent", "tridiagonal", topology, weight)
            if is_accurate(paths.growth) or not weight.isfinite().all():
                return paths
        return exact_resolvent("sparse_lu", topology, weight)

    def column_work(self, topology: Topology) -> int:
        if topology.undirected_paths is not None:
            return 2 * topology.num_nodes
        return topology.elimination_plan(MAX_ENTRIES).fill

    def mask_work(self, topology: Topology) -> int:
        """Half of all columns' work on graphs: on the way up the tree a row is zero but for its descendants."""
        return super().mask_work(topology) // (1 if topology.undirected_paths is not None else 2)

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        if topology.undirected_paths is not None:
            return 2 * scan_mix_work(topology.num_nodes, N, P, groups_per_head)
        return _STATE_PENALTY * (self.column_work(topology) + _NODE_ENTRIES * topology.num_nodes) * N * P
