"""Symbolic sparse LU: an order of elimination with little fill, its fill pattern, and the levels of work.

Only integers. `chimera_ssm.ops.sparse_lu.solver` does the arithmetic on this plan, for any weights.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chimera_ssm.topology.plans import FactorPlan, Schedule
from chimera_ssm.topology.traversal import ranges

Array = np.ndarray


class TooMuchFill(Exception):
    """The factors would have more than the allowed number of entries.

    Attributes:
        entries: what they need at least.
        filled: what they need if all nodes that were left when counting stopped touch each other: hardly more than the
            truth for random graphs, which fill in soon, and far more for meshes.
    """

    def __init__(self, entries: int, filled: int):
        super().__init__(entries, filled)
        self.entries, self.filled = entries, filled


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


def plan_elimination(
    num_nodes: int, source: Array, target: Array, limit: int, order: Array | None = None
) -> EliminationPlan:
    """Minimum-degree order and its fill; raises `TooMuchFill` once L and U must exceed ``limit`` entries.

    A given ``order``, a permutation of the nodes, is used instead unless its fill exceeds the limit.
    """
    from chimera_ssm.topology.minimum_degree import best_order, linked

    begin, links = linked(num_nodes, source, target)
    if order is not None:
        with suppress(TooMuchFill):
            return _fill_in(begin, links, order, limit)
    order, entries, filled = best_order(begin, links, limit)
    if entries > limit:
        raise TooMuchFill(int(entries), int(filled))
    return _fill_in(begin, links, order, limit)


def _fill_in(begin: Array, links: Array, order: Array, limit: int) -> EliminationPlan:
    """The plan of an order: everything else follows from it, in time linear in the fill."""
    from chimera_ssm.topology.minimum_degree import elimination_tree, rows_of_columns

    tree, entries = elimination_tree(begin, links, order, limit)
    if entries > limit:
        raise TooMuchFill(int(entries), int(entries))
    rows = rows_of_columns(begin, links, order, tree)
    by_level = np.argsort(tree.level, kind="stable")
    first, count = np.cumsum(tree.count) - tree.count, tree.count[by_level]
    late = rows[ranges(first[by_level], first[by_level] + count)]
    return EliminationPlan(order, order[np.repeat(by_level, count)], order[late], tree.level[tree.rank])


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
