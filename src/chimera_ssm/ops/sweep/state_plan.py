"""Plans of the state kernels: edges that do not come from the step before, and where their sources are stored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chimera_ssm.ops.sweep.plan import sweep_plan
from chimera_ssm.topology import Topology

Array = np.ndarray


class OtherEdges(NamedTuple):
    """Edges whose source is not the step before.

    Attributes:
        kind: 1 if each step has at most one such edge and each source at most one reader, else 2.
        begin: the edges into step k are ``begin[k]`` to ``begin[k + 1]``, ``[T + 1]``.
        edge: number of the edge in the topology; −1 for a step without one, kind 1 only.
        place: slot of its source; a row of zeros where there is no edge.
        latest: whether it is the last to read its source.
    """

    kind: int
    begin: Array
    edge: Array
    place: Array
    latest: Array


def other_edges(topology: Topology) -> OtherEdges:
    """The edges of an acyclic topology that do not come from the step before."""
    plan = topology.cached(sweep_plan, True)
    count = np.diff(plan.begin)
    if count.max() > 1 or not plan.last.all():
        return OtherEdges(2, plan.begin, plan.edge, plan.source_slot, plan.last)
    edge, place = np.full(plan.node.size, -1), np.full(plan.node.size, plan.slots + 2)
    latest = np.zeros(plan.node.size, dtype=np.int64)
    edge[count > 0], place[count > 0], latest[count > 0] = plan.edge, plan.source_slot, plan.last
    return OtherEdges(1, np.arange(plan.node.size + 1), edge, place, latest)


def source_slots(topology: Topology) -> Array:
    """Where the adjoint of each edge's source is accumulated: its slot, or an unused one."""
    others = topology.cached(other_edges)
    return np.where(others.edge >= 0, others.place, topology.cached(sweep_plan, True).slots)


def back_slots(topology: Topology) -> Array:
    """Where each step reads its accumulated adjoint: its slot, or a row of zeros."""
    plan = topology.cached(sweep_plan, True)
    return np.where(plan.slot < plan.slots, plan.slot, plan.slots + 2)


def places(topology: Topology, segment: int) -> Array:
    """Row of each edge's source while the backward kernel works on a segment of this many nodes."""
    plan, others = topology.cached(sweep_plan, True), topology.cached(other_edges)
    start = np.repeat(np.arange(plan.node.size) // segment * segment, np.diff(others.begin))
    step = np.full(others.edge.size, -1)
    step[others.edge >= 0] = plan.source_step
    return np.where(step < start, others.place, plan.slots + 4 + step - start)
