"""Symbolic sparse LU: an order of elimination with little fill, its fill pattern, and the levels of work.

Only integers. `chimera_ssm.solvers.elimination` does the arithmetic on this plan, for any weights.
"""

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chimera_ssm.topology.order import levels, ranges
from chimera_ssm.topology.plans import FactorPlan, Schedule

Array = np.ndarray


class TooMuchFill(Exception):
    """The factors would have more than the allowed number of entries; carries what they need at least."""

    def __init__(self, entries: int):
        super().__init__(entries)
        self.entries = entries


@dataclass(frozen=True)
class EliminationPlan:
    """Pattern of L and U in (I − A) = L D U, as pairs ``early → late`` of nodes in elimination order.

    Pair ``f`` stands for two entries: ``L[late, early]`` and ``U[early, late]``. Pairs are sorted by the
    level of ``early``: all nodes of a level can be eliminated at once.

    Attributes:
        order: nodes in the order of their elimination, ``[T]``.
        early: ``[F]``.
        late: ``[F]``.
        level: level of each node, ``[T]``: longest path in the pattern that ends there.
    """

    order: Array
    early: Array
    late: Array
    level: Array

    @property
    def fill(self) -> int:
        """Nonzeros of L + U + D."""
        return 2 * self.early.size + self.order.size

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Where the pairs of each level of ``early`` begin; one more entry for the end."""
        return tuple(np.searchsorted(self.level[self.early], np.arange(self.level.max() + 1)).tolist())

    @cached_property
    def position(self) -> Array:
        """Rank of each node in ``order``, ``[T]``."""
        position = np.empty_like(self.order)
        position[self.order] = np.arange(self.order.size)
        return position

    def locate(self, source: Array, target: Array) -> tuple[Array, Array]:
        """Pair of each edge, and whether its weight is an entry of L (else of U)."""
        lower = self.position[source] < self.position[target]
        early, late = np.where(lower, source, target), np.where(lower, target, source)
        codes, order = self._codes
        found = np.searchsorted(codes, self.position[early] * self.order.size + self.position[late])
        return order[found], lower

    def updates(self, group: int) -> Array:
        """Products that eliminating a level subtracts, pairs ``(one, other, into)``, ``[3, ·]``.

        ``L[into] −= L[other] D U[one]`` and ``U[into] −= L[one] D U[other]``, for every two pairs of one early
        node, where the late node of ``one`` comes first. ``one`` and ``other`` count from the group's begin.
        """
        first, last = self.bounds[group], self.bounds[group + 1]
        run = self._run[first:last]
        start, stop = np.arange(run.size) + 1, np.searchsorted(run, run, side="right")
        one, other = np.repeat(start - 1, stop - start), ranges(start, stop)
        into, _ = self.locate(self.late[first + one], self.late[first + other])
        return np.stack([one, other, into]).astype(np.int32)

    @cached_property
    def _codes(self) -> tuple[Array, Array]:
        codes = self.position[self.early] * self.order.size + self.position[self.late]
        order = np.argsort(codes)
        return codes[order], order

    @cached_property
    def _run(self) -> Array:
        """Number of the run of equal ``early`` that each pair belongs to."""
        return np.cumsum(np.diff(self.early, prepend=-1) != 0)


def plan_elimination(num_nodes: int, source: Array, target: Array, limit: int) -> EliminationPlan:
    """Minimum-degree order and its fill; raises `TooMuchFill` once L and U must exceed ``limit`` entries."""
    order, structures = _minimum_degree(num_nodes, source, target, limit)
    early = np.repeat(order, [len(s) for s in structures])
    late = np.fromiter((i for s in structures for i in s), dtype=np.int64, count=early.size)
    return _arrange(order, early, late, levels(num_nodes, early, late))


def plan_factors(plan: EliminationPlan, source: Array, target: Array) -> FactorPlan:
    """Where the weights of edges enter the factors, and the arithmetic of each level."""
    loop = source == target
    edges = np.flatnonzero(~loop)
    pair, is_lower = plan.locate(source[edges], target[edges])
    return FactorPlan(
        Schedule(plan.early, plan.late, plan.bounds),
        np.stack([edges[is_lower], pair[is_lower]]),
        np.stack([edges[~is_lower], pair[~is_lower]]),
        np.stack([np.flatnonzero(loop), source[loop]]),
        tuple(plan.updates(group) for group in range(len(plan.bounds) - 1)),
    )


def join_plans(plans: list[EliminationPlan]) -> EliminationPlan:
    """The plan of a disjoint union of graphs, from those of its parts."""
    start = np.cumsum([0] + [p.order.size for p in plans])
    joined = {
        name: np.concatenate([getattr(p, name) + s for p, s in zip(plans, start, strict=False)])
        for name in ("order", "early", "late")
    }
    return _arrange(**joined, level=np.concatenate([p.level for p in plans]))


def _arrange(order: Array, early: Array, late: Array, level: Array) -> EliminationPlan:
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    by_level = np.lexsort((position[late], position[early], level[early]))
    return EliminationPlan(order, early[by_level], late[by_level], level)


def _minimum_degree(num_nodes: int, source: Array, target: Array, limit: int) -> tuple[Array, list[set[int]]]:
    """Order and, for each node of it, the later nodes that its elimination touches.

    The graph of what is left is kept as a quotient graph: an eliminated node is an *element*, the set of
    its neighbours at that moment, which stands for a clique without storing its edges. Degrees are upper
    bounds, as in the approximate minimum degree method; among equals the oldest goes first, which peels
    trees from their leaves, and so without fill.
    """
    links: list[set[int]] = [set() for _ in range(num_nodes)]
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        if a != b:
            links[a].add(b)
            links[b].add(a)
    elements: list[set[int]] = [set() for _ in range(num_nodes)]
    members: dict[int, set[int]] = {}
    degree = [len(x) for x in links]
    queue = [(d, v, v) for v, d in enumerate(degree)]
    heapq.heapify(queue)
    order: list[int] = []
    structures: list[set[int]] = []
    done, clock, entries = [False] * num_nodes, num_nodes, num_nodes
    while queue:
        d, _, pivot = heapq.heappop(queue)
        if done[pivot] or d != degree[pivot]:
            continue
        done[pivot] = True
        touched = links[pivot].union(*(members.pop(e) for e in elements[pivot])) - {pivot}
        order.append(pivot)
        structures.append(touched)
        entries += 2 * len(touched)
        if entries + len(touched) * (len(touched) - 1) > limit:
            raise TooMuchFill(entries + len(touched) * (len(touched) - 1))
        if len(touched) == num_nodes - len(order):
            break  # what is left is a clique: any order will do
        _absorb(pivot, touched, links, elements, members)
        for v, d in _degrees(pivot, touched, links, elements, members):
            degree[v], clock = min(d, num_nodes - len(order) - 1), clock + 1
            heapq.heappush(queue, (degree[v], clock, v))
    rest = sorted(structures[-1]) if len(order) < num_nodes else []
    order += rest
    structures += [set(rest[k + 1 :]) for k in range(len(rest))]
    return np.array(order), structures


def _absorb(
    pivot: int,
    touched: set[int],
    links: list[set[int]],
    elements: list[set[int]],
    members: dict[int, set[int]],
) -> None:
    """Turn ``pivot`` into an element that stands for all it touches."""
    gone = elements[pivot]
    for v in touched:
        links[v] -= touched
        links[v].discard(pivot)
        elements[v] -= gone
        elements[v].add(pivot)
    members[pivot] = touched


def _degrees(
    pivot: int,
    touched: set[int],
    links: list[set[int]],
    elements: list[set[int]],
    members: dict[int, set[int]],
) -> list[tuple[int, int]]:
    """New degree bounds of the touched nodes; elements that lie within ``touched`` are dropped."""
    outside: dict[int, int] = {}
    for v in touched:
        for e in elements[v]:
            outside[e] = outside.get(e, len(members[e])) - 1
    degrees = []
    for v in touched:
        inside = {e for e in elements[v] if e != pivot and outside[e] == 0}
        elements[v] -= inside
        rest = sum(outside[e] for e in elements[v] if e != pivot)
        degrees.append((v, len(links[v]) + len(touched) - 1 + rest))
    for e, left in outside.items():
        if left == 0 and e != pivot:
            members.pop(e)
    return degrees
