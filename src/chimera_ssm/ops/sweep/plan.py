"""Plans of sweeps for the kernels: an ordering, the edges into each step, and as few slots for rows as possible."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from chimera_ssm.cpu.compilation import kernel
from chimera_ssm.cpu.simd import WIDTH
from chimera_ssm.topology import Topology

Array = np.ndarray


@dataclass(frozen=True)
class SweepPlan:
    """A sweep of an acyclic graph in topological order; step k works on ``node[k]``.

    The result of a step is kept in a slot until its last reader has run; a reader may reuse the slot. A grid needs as
    many slots as a row has nodes. If ``carried`` is used, the next step reads the result from registers, and only other
    readers need a slot: a line needs none.

    Attributes:
        node: ``[T]``.
        carried: edge that enters step k from step k − 1, −1 if none or if nothing is carried, ``[T]``.
        begin: the other edges into step k are ``begin[k]`` to ``begin[k + 1]``, ``[T + 1]``.
        edge: number of each such edge in the topology.
        source_step: step of its source, ``source_slot``: slot of it.
        last: whether it is the last to read its source.
        slot: slot of step k, ``[T]``; ``slots`` (one too many) if it needs none.
        slots: number of slots.
        row: row of step k among the padded rows of all parts, ``[T]``; ``column``: its column within its part.
        low, high: range of columns in which row k of L is not zero, rounded to vectors, ``[T]``.
    """

    node: Array
    carried: Array
    begin: Array
    edge: Array
    source_step: Array
    source_slot: Array
    last: Array
    slot: Array
    slots: int
    row: Array
    column: Array
    low: Array
    high: Array


def sweep_plan(topology: Topology, carry: bool) -> SweepPlan:
    """The plan of an acyclic topology."""
    source, target = topology._edge_index
    node = topology._topological_order
    step = np.empty_like(node)
    step[node] = np.arange(node.size)
    row = topology.block_plan.place[node]
    column = row % topology.block_plan.shape[1]
    low, high = _column_ranges(column, *_entering(step[source], step[target], node.size)[:2])

    carried, is_carried = np.full(node.size, -1), carry & (step[source] + 1 == step[target])
    carrying, others = np.flatnonzero(is_carried), np.flatnonzero(~is_carried)
    carried[step[target[carrying]]] = carrying
    begin, source_step, order = _entering(step[source[others]], step[target[others]], node.size)
    slot, slots, last = _allocate(begin, source_step, not carry)
    edge = others[order]
    slot[slot < 0] = slots
    arrays = node, carried, begin, edge, source_step, slot[source_step], last, slot, row, column, low, high
    names = (f.name for f in fields(SweepPlan) if f.name != "slots")
    return SweepPlan(slots=int(slots), **{n: a.astype(np.int64) for n, a in zip(names, arrays, strict=True)})


def _entering(source_step: Array, target_step: Array, steps: int) -> tuple[Array, Array, Array]:
    """Edges sorted by the step they enter: where each step's begin, their sources, and the order itself."""
    order = np.argsort(target_step, kind="stable")
    begin = np.zeros(steps + 1, dtype=np.int64)
    np.cumsum(np.bincount(target_step, minlength=steps), out=begin[1:])
    return begin, source_step[order], order


@kernel
def _allocate(begin, source_step, everyone):
    """A slot for each step that is read later, or for every one; freed when its last reader has run."""
    steps = begin.size - 1
    reader = np.full(steps, -1, np.int64)
    for k in range(steps):
        for e in range(begin[k], begin[k + 1]):
            reader[source_step[e]] = k
    slot, free = np.full(steps, -1, np.int64), np.empty(steps + 1, np.int64)
    last = np.zeros(source_step.size, np.uint8)
    available, slots = 0, 0
    for k in range(steps):
        for e in range(begin[k], begin[k + 1]):
            if reader[source_step[e]] == k:
                last[e] = 1
                free[available] = slot[source_step[e]]
                available += 1
        if reader[k] < 0 and not everyone:
            continue
        if available == 0:
            free[0], available, slots = slots, 1, slots + 1
        available -= 1
        slot[k] = free[available]
        if reader[k] < 0:
            available += 1
    return slot, slots, last


@kernel
def _column_ranges(column, begin, source_step):
    low, high = column // WIDTH * WIDTH, column // WIDTH * WIDTH + WIDTH
    for k in range(column.size):
        for e in range(begin[k], begin[k + 1]):
            low[k] = min(low[k], low[source_step[e]])
            high[k] = max(high[k], high[source_step[e]])
    return low, high
