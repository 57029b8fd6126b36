"""A warning before expensive work on general graphs, whose factors fill in."""

from __future__ import annotations

import sys
import warnings
from math import prod

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.dense.solver import Dense
from chimera_ssm.ops.sparse_lu.pivoting import MAX_ENTRIES
from chimera_ssm.ops.sparse_lu.solver import SparseLU
from chimera_ssm.topology import Topology

#: Multiplications per second of a thread in solves, and updates per second of up to sixteen heads in factorizations:
#: measured on random graphs of 1,000 to 3,000 nodes, to a factor of about three.
RATE, FACTOR_RATE = 1e10, 3e8
LANES = 16
#: Seconds of a forward pass from which on there is a warning.
LONG = 10.0
#: Graphs with fewer nodes are never expensive.
_LARGE = 1000


def warn_if_expensive(topology: Topology, solver: Solver, work: float, weight: Tensor) -> None:
    """Warn, once for each topology, if solving with weights ``[..., H, E]`` takes long.

    Args:
        topology: the topology.
        solver: the exact solver that was selected.
        work: multiplications of a head.
        weight: of the edges.
    """
    if topology.num_nodes < _LARGE or topology.is_acyclic or topology.is_forest:
        return
    nodes, heads = topology.num_nodes, prod(weight.shape[:-1])
    entries, updates = topology.cached(_factors, solver)
    seconds = heads * work / (RATE * torch.get_num_threads()) + -(-heads // LANES) * updates / FACTOR_RATE
    if not entries or seconds < LONG or topology.cached(_warned):
        return
    topology.cached(_warned).append(True)
    size = max(weight.element_size(), 4)
    warnings.warn(
        f"{topology!r} is expensive to solve exactly: {entries / nodes:,.0f} entries of the factors "
        f"per node; a forward pass takes about {_duration(seconds)} and {heads * entries * size / 1e9:.1f} GB for the "
        f"factors of {heads} heads, the backward pass about three times as long. Alternatives: a truncated "
        "series, solver=Neumann(terms); DAGs, kind=OnDAG(); or fewer edges",
        stacklevel=_frames_to_the_caller(),
    )


def _frames_to_the_caller() -> int:
    """The ``stacklevel`` of a warning that points to the code that called the library, maybe through modules."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("chimera_ssm", "torch")):
        frame, level = frame.f_back, level + 1
    return level


def _factors(topology: Topology, solver: Solver) -> tuple[int, int]:
    """Entries of the factors of a head, and updates of them in the factorization."""
    if isinstance(solver, SparseLU) and topology.undirected_paths is None:
        plan = topology.elimination_plan(MAX_ENTRIES)
        return plan.fill, int((np.bincount(plan.early) ** 2).sum())
    if isinstance(solver, Dense):
        sizes = topology.part_sizes
        return int((sizes**2).sum()), int((sizes**3).sum()) // 3 // LANES  # by a library, far faster than sparse LU
    return 0, 0


def _warned(topology: Topology) -> list[bool]:
    return []


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
