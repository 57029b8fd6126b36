"""Symbolic sparse LU: an elimination ordering with little fill, its fill pattern, and its levels.

Integers only. `chimera_ssm.ops.sparse_lu.solver` does the arithmetic on this plan, for any weights.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chimera_ssm.cpu.progress import progress
from chimera_ssm.topology.csr import offsets, ranges
from chimera_ssm.topology.plans import FactorPlan, Schedule

Array = np.ndarray


class TooMuchFill(Exception):
    """The factors would have more than the allowed number of entries.

    Attributes:
        entries: a lower bound of the number of entries.
        filled: an upper bound, the number if all nodes that remained when counting stopped were adjacent: close to the
            true number for random graphs, which fill in early, and far above it for meshes.
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
        order: nodes in elimination order, ``[T]``.
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
        """Start of the pairs of each level of ``early``, and the end of the last."""
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
        """Updates of the entries when a level is eliminated, as pairs ``(one, other, into)``, ``[3, ·]``.

        ``L[into] −= L[other] D U[one]`` and ``U[into] −= L[one] D U[other]``, for every two pairs of one early
        node, where the late node of ``one`` comes first. ``one`` and ``other`` are relative to the group's start.
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
    """Minimum-degree ordering and its fill; raises `TooMuchFill` once L and U must exceed ``limit`` entries."""
    from chimera_ssm.topology.minimum_degree import adjacency_lists, best_order, elimination_tree, rows_of_columns

    begin, links = adjacency_lists(num_nodes, source, target)
    with progress("computing the elimination order", num_nodes):
        order, entries, filled = best_order(begin, links, limit)
    if entries > limit:
        raise TooMuchFill(int(entries), int(filled))
    tree, entries = elimination_tree(begin, links, order, limit)
    if entries > limit:
        raise TooMuchFill(int(entries), int(entries))
    rows = rows_of_columns(begin, links, order, tree)
    by_level = np.argsort(tree.level, kind="stable")
    first, count = offsets(tree.count)[by_level], tree.count[by_level]
    late = rows[ranges(first, first + count)]
    return EliminationPlan(order, order[np.repeat(by_level, count)], order[late], tree.level[tree.rank])


def plan_factors(plan: EliminationPlan, source: Array, target: Array) -> FactorPlan:
    """Positions of the edge weights in the factors, and the updates of each level."""
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
    start = offsets(np.array([p.order.size for p in plans]))
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
