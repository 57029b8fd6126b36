"""Plans: what solvers need to know of a topology, as integers. Found once, kept with it, moved to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from chimera_ssm.topology.traversal import ranges

Array = np.ndarray
#: An array on the host, a tensor once `on_device` has moved it.
Integers = Any


@dataclass(frozen=True)
class PathPlan:
    """A graph of disjoint paths laid out as one line, broken where a path ends.

    Attributes:
        nodes: nodes in the order of the line, ``[T]``; ``None`` if that is 0, 1, …, T−1.
        ahead: edge that enters each place from the one before, ``[T]``; E (no edge) where there is none.
        back: edge that enters each place from the one after, ``[T]``; E where there is none.
    """

    nodes: Integers | None
    ahead: Integers
    back: Integers


@dataclass(frozen=True)
class Schedule:
    """Edges of an acyclic graph in groups that can be worked on at once, one group after the other.

    Attributes:
        source: ``[E]``.
        target: ``[E]``.
        bounds: where each group begins, with one more entry for the end.
    """

    source: Integers
    target: Integers
    bounds: tuple[int, ...]


@dataclass(frozen=True)
class LevelPlan:
    """Edges of an acyclic graph scheduled by the level of their target.

    Attributes:
        edges: edge numbers in the order of the schedule, ``[E]``.
        schedule: their ends and groups.
    """

    edges: Integers
    schedule: Schedule


@dataclass(frozen=True)
class BlockPlan:
    """Dense storage of a union: a square block of side S for each part, S the size of the largest.

    Attributes:
        shape: number of blocks and S.
        trivial: whether blocks are the nodes as they are: no padding, no other order.
        entry: place of each edge's weight among the ``blocks·S·S`` entries, ``[E]``.
        node: node at each of the ``blocks·S`` places, T (no node) in the padding.
        place: place of each node among those, ``[T]``.
    """

    shape: tuple[int, int]
    trivial: bool
    entry: Integers
    node: Integers
    place: Integers


@dataclass(frozen=True)
class FactorPlan:
    """A schedule of sparse LU for weights ``[E]``: where they enter, and what each level subtracts.

    Attributes:
        pairs: early → late, a group for each level of the early nodes.
        lower: edges whose weights are entries of L, and the pairs they belong to, ``[2, ·]``.
        upper: the same for U.
        loops: self-loops and their nodes, ``[2, ·]``.
        updates: for each group, pairs ``(one, other, into)``, the first two counted from its begin, ``[3, ·]``.
    """

    pairs: Schedule
    lower: Integers
    upper: Integers
    loops: Integers
    updates: tuple[Integers, ...]


def block_plan(part: Array, sizes: Array, order: Array, source: Array, target: Array) -> BlockPlan:
    """Lay parts of the given sizes out in blocks, nodes in ``order``, which must keep parts together."""
    blocks, side = sizes.size, int(sizes.max())
    place = np.empty_like(order)
    place[order] = part[order] * side + ranges(np.zeros_like(sizes), sizes)
    node = np.full(blocks * side, order.size)
    node[place] = np.arange(order.size)
    entry = place[target] * side + place[source] % side
    return BlockPlan((blocks, side), np.array_equal(place, np.arange(blocks * side)), entry, node, place)


def on_device(value: Any, device: torch.device) -> Any:
    """Integer arrays as tensors on ``device``, also within plans and tuples of them."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value)).to(device)
    if isinstance(value, tuple):
        return tuple(on_device(v, device) for v in value)
    if hasattr(value, "__dataclass_fields__"):
        return type(value)(*(on_device(getattr(value, n), device) for n in value.__dataclass_fields__))
    return value
