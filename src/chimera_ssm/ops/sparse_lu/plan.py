"""Plans of sparse LU for the kernels: the pattern of L and U by rows, in a postorder of the elimination tree."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import kernel
from chimera_ssm.cpu.simd import WIDTH
from chimera_ssm.topology import Topology

Array = np.ndarray


class LUPlan(NamedTuple):
    """Pattern of ``I − A = L D U``; rows and columns are ranks in the order of elimination, parts one after the other.

    In a postorder all descendants of a node in the elimination tree come right before it, so that row i of L⁻¹ is
    zero outside the columns ``descendant[i]`` to ``i``, and the rows that a row reads are near.

    Attributes:
        part: ranks where each part begins, with one more entry for the end.
        largest: nodes of the largest part.
        node: node of each rank, ``[T]``.
        descendant: first descendant of each rank, ``[T]``.
        low, high: range of nodes that its descendants and itself are in, in whole vectors within their part, ``[T]``.
        lower_begin: row i of L has entries ``lower_begin[i]`` to ``lower_begin[i + 1]``, ``[T + 1]``.
        lower_column: their columns, all before i, ``[F]``.
        upper_begin: the same for U, ``[T + 1]``.
        upper_column: all after i, ``[F]``.
        lower_pair: for each entry U[i, j] the number of its counterpart L[j, i], ``[F]``.
        upper_pair: for each entry L[i, j] the number of its counterpart U[j, i], ``[F]``.
        edge_begin: row i of A has entries ``edge_begin[i]`` to ``edge_begin[i + 1]``, ``[T + 1]``.
        edge: number of each such edge in the topology, ``[E]``.
        edge_column: rank of its source, ``[E]``.
    """

    part: Array
    largest: int
    node: Array
    descendant: Array
    low: Array
    high: Array
    lower_begin: Array
    lower_column: Array
    upper_begin: Array
    upper_column: Array
    lower_pair: Array
    upper_pair: Array
    edge_begin: Array
    edge: Array
    edge_column: Array


def lu_plan(topology: Topology) -> LUPlan:
    """The plan of a topology."""
    T = topology.num_nodes
    plan = topology.elimination_plan(sys.maxsize)
    early, late = plan.position[plan.early], plan.position[plan.late]
    parent = np.full(T, T)
    np.minimum.at(parent, early, late)
    place, descendant = _postorder(parent)
    rank = place[plan.position]
    node = np.argsort(rank)

    early, late = place[early], place[late]
    by_row = np.lexsort((late, early))
    early, late = early[by_row], late[by_row]  # entries of U in their order
    lower_pair_inverse = np.lexsort((early, late))  # entries of L in theirs, as numbers of entries of U
    lower_pair = np.empty_like(lower_pair_inverse)
    lower_pair[lower_pair_inverse] = np.arange(early.size)

    part = np.concatenate([[0], np.cumsum(topology.part_sizes)])
    low, high = _node_ranges(node - np.repeat(part[:-1], topology.part_sizes), descendant)

    source, target = rank[topology._edge_index]
    edge = np.lexsort((source, target))
    return LUPlan(
        part=part,
        largest=int(topology.part_sizes.max(initial=0)),
        node=node,
        descendant=descendant,
        low=low,
        high=high,
        lower_begin=_begins(late, T),
        lower_column=early[lower_pair_inverse].astype(np.int32),
        upper_begin=_begins(early, T),
        upper_column=late.astype(np.int32),
        lower_pair=lower_pair,
        upper_pair=lower_pair_inverse,
        edge_begin=_begins(target, T),
        edge=edge,
        edge_column=source[edge],
    )


def _begins(row: Array, rows: int) -> Array:
    """Where each row's entries begin once they are sorted by row."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])


@kernel
def _postorder(parent):
    """Place of each node in a postorder of a forest, and by place its first descendant; T stands for no parent.

    Parents come after their children. Trees stay in the order of their roots.
    """
    T = parent.size
    size = np.ones(T + 1, np.int64)
    for k in range(T):
        size[parent[k]] += size[k]
    place, descendant = np.empty(T, np.int64), np.empty(T, np.int64)
    room = np.empty(T + 1, np.int64)  # what is left for the children of each node ends here
    room[T] = T
    for k in range(T - 1, -1, -1):
        place[k] = room[parent[k]] - 1
        room[parent[k]] -= size[k]
        room[k] = place[k]
        descendant[place[k]] = place[k] - size[k] + 1
    return place, descendant


@kernel
def _node_ranges(column, descendant):
    """Least and largest column among the descendants of each rank and itself, rounded to vectors."""
    low, high = column // WIDTH * WIDTH, column // WIDTH * WIDTH + WIDTH
    for i in range(column.size):
        k = i - 1  # children are found by jumping over each other's descendants
        while k >= descendant[i]:
            low[i], high[i] = min(low[i], low[k]), max(high[i], high[k])
            k = descendant[k] - 1
    return low, high
