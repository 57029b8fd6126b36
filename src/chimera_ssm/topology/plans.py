"""Plans: the integers that solvers need of a topology. Computed once, cached, moved to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chimera_ssm.topology.csr import ranges

Array = np.ndarray
#: An array on the host, a tensor after `cache.on_device`.
Integers = Any


@dataclass(frozen=True)
class PathPlan:
    """A graph of disjoint paths laid out as one line with a break after each path.

    Attributes:
        nodes: nodes in the order of the line, ``[T]``; ``None`` if that is 0, 1, …, T−1.
        ahead: edge into each position from the previous one, ``[T]``; E where there is none.
        back: edge into each position from the next one, ``[T]``; E where there is none.
    """

    nodes: Integers | None
    ahead: Integers
    back: Integers


@dataclass(frozen=True)
class Schedule:
    """Edges of an acyclic graph in groups: the edges of a group are independent of each other, groups are sequential.

    Attributes:
        source: ``[E]``.
        target: ``[E]``.
        bounds: start of each group, and the end of the last.
    """

    source: Integers
    target: Integers
    bounds: tuple[int, ...]


@dataclass(frozen=True)
class LevelPlan:
    """Edges of an acyclic graph scheduled by the level of their target.

    Attributes:
        edges: edge numbers in the order of the schedule, ``[E]``.
        schedule: their endpoints and groups.
    """

    edges: Integers
    schedule: Schedule


@dataclass(frozen=True)
class BlockPlan:
    """Dense storage of a union: a square block of side S for each part, S the size of the largest.

    Attributes:
        shape: number of blocks and S.
        trivial: whether there is neither padding nor reordering.
        entry: position of each edge's weight among the ``blocks·S·S`` entries, ``[E]``.
        node: node at each of the ``blocks·S`` positions, T in the padding.
        place: position of each node among those, ``[T]``.
    """

    shape: tuple[int, int]
    trivial: bool
    entry: Integers
    node: Integers
    place: Integers


@dataclass(frozen=True)
class FactorPlan:
    """A schedule of sparse LU for weights ``[E]``: their positions in the factors, and the updates of each level.

    Attributes:
        pairs: early → late, a group for each level of the early nodes.
        lower: edges whose weights are entries of L, and the pairs they belong to, ``[2, ·]``.
        upper: the same for U.
        loops: self-loops and their nodes, ``[2, ·]``.
        updates: for each group, pairs ``(one, other, into)``, the first two relative to its start, ``[3, ·]``.
    """

    pairs: Schedule
    lower: Integers
    upper: Integers
    loops: Integers
    updates: tuple[Integers, ...]


def path_plan(nodes: Array, source: Array, target: Array) -> PathPlan:
    """Layout of paths that visit ``nodes [T]`` in this order."""
    place = np.empty_like(nodes)
    place[nodes] = np.arange(nodes.size)
    forward = place[source] < place[target]
    ahead, back = np.full((2, nodes.size), source.size)
    ahead[place[target[forward]]] = np.flatnonzero(forward)
    back[place[target[~forward]]] = np.flatnonzero(~forward)
    return PathPlan(None if np.array_equal(nodes, np.arange(nodes.size)) else nodes, ahead, back)


def level_plan(levels: Array, source: Array, target: Array) -> LevelPlan:
    """Schedule of edges by the level of their target."""
    depth = levels[target]
    edges = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[edges], np.arange(1, levels.max() + 2))
    return LevelPlan(edges, Schedule(source[edges], target[edges], tuple(bounds.tolist())))


def block_plan(part: Array, sizes: Array, order: Array, source: Array, target: Array) -> BlockPlan:
    """Blocks of parts of the given sizes, nodes in ``order``, which must keep parts together."""
    blocks, side = sizes.size, int(sizes.max())
    place = np.empty_like(order)
    place[order] = part[order] * side + ranges(np.zeros_like(sizes), sizes)
    node = np.full(blocks * side, order.size)
    node[place] = np.arange(order.size)
    entry = place[target] * side + place[source] % side
    return BlockPlan((blocks, side), np.array_equal(place, np.arange(blocks * side)), entry, node, place)
