"""Plans of sweeps for the kernels: an order, the edges into each node, and the fewest places to keep rows in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chimera_ssm.solvers.kernels.jit import kernel
from chimera_ssm.topology import Topology

Array = np.ndarray


@dataclass(frozen=True)
class SweepPlan:
    """A sweep of an acyclic graph in topological order; "step k" works on node ``order[k]``.

    Attributes:
        order: ``[T]``.
        begin: edges into step k are ``begin[k]`` to ``begin[k + 1]``, ``[T + 1]``.
        edge: number of each such edge in the topology, ``[E]``; ``source`` is its source node.
        source: ``[E]``.
        slot: place where step k keeps its row until its last child has read it, ``[T]``; a child may take its
            parent's. A line needs one, a grid one row of nodes.
        source_slot: place of each edge's source, ``[E]``.
        slots: number of places.
        last: whether the edge is the last to read its source, ``[E]``.
        heard: whether step k has children, ``[T]``.
        low, high: range of node numbers from which step k can hear, rounded to vectors, ``[T]``.
    """

    order: Array
    begin: Array
    edge: Array
    source: Array
    slot: Array
    source_slot: Array
    slots: int
    last: Array
    heard: Array
    low: Array
    high: Array


def sweep_plan(topology: Topology) -> SweepPlan:
    """The plan of an acyclic topology, made once."""
    return topology.once("sweep plan", lambda: _make(topology))


def _make(topology: Topology) -> SweepPlan:
    source, target = topology.edge_index.cpu().numpy()
    order = topology.topological_order.cpu().numpy()
    step = np.empty_like(order)
    step[order] = np.arange(order.size)
    edge = np.argsort(step[target], kind="stable")
    begin = np.zeros(order.size + 1, dtype=np.int64)
    np.cumsum(np.bincount(step[target], minlength=order.size), out=begin[1:])
    source_step = step[source[edge]]
    slot, slots, last, heard = _allocate(begin, source_step)
    low, high = _ranges(order, begin, source_step)
    return SweepPlan(order, begin, edge, source[edge], slot, slot[source_step], int(slots), last, heard, low, high)


@kernel
def _allocate(begin, source_step):
    """Places for rows, freed when the last child has read them."""
    steps = begin.size - 1
    last_reader = np.full(steps, -1, np.int64)
    for k in range(steps):
        for e in range(begin[k], begin[k + 1]):
            last_reader[source_step[e]] = k
    slot, free = np.empty(steps, np.int64), np.empty(steps, np.int64)
    last = np.zeros(source_step.size, np.bool_)
    heard = last_reader >= 0
    available, slots = 0, 0
    for k in range(steps):
        for e in range(begin[k], begin[k + 1]):
            if last_reader[source_step[e]] == k:
                last[e] = True
                free[available] = slot[source_step[e]]
                available += 1
        if available > 0:
            available -= 1
            slot[k] = free[available]
        else:
            slot[k] = slots
            slots += 1
        if not heard[k]:
            free[available] = slot[k]
            available += 1
    return slot, slots, last, heard


@kernel
def _ranges(order, begin, source_step):
    low, high = order // 8 * 8, order // 8 * 8 + 8
    for k in range(order.size):
        for e in range(begin[k], begin[k + 1]):
            low[k] = min(low[k], low[source_step[e]])
            high[k] = max(high[k], high[source_step[e]])
    return low, high
