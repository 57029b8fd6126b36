"""Disjoint unions: several graphs as one, without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology.base import Array, Topology, hashable
from chimera_ssm.topology.cache import derived
from chimera_ssm.topology.plans import PathPlan
from chimera_ssm.topology.symbolic_lu import EliminationPlan, TooMuchFill, join_plans


class Batch(Topology):
    """The disjoint union of several topologies: their nodes and edges, concatenated.

    Built by `batch`. Derived structure of the parts, elimination orderings above all, is reused.
    """

    def __init__(self, parts: tuple[Topology, ...]):
        key = f"Batch({', '.join([p.key for p in parts])})"
        num_nodes, num_edges = sum([p.num_nodes for p in parts]), sum([p.num_edges for p in parts])
        super().__init__(key, num_nodes, num_edges, len(parts), _parts=parts)

    @property
    def parts(self) -> tuple[Topology, ...]:
        if "_parts" in self.__dict__:
            return self.__dict__["_parts"]
        return self.entry.content["_parts"]  # a compiled function created this batch from its key

    def _find_ends(self) -> tuple[Array, Array]:
        start = np.cumsum([0] + [p.num_nodes for p in self.parts])
        source = np.concatenate([p._source + s for p, s in zip(self.parts, start, strict=False)])
        target = np.concatenate([p._target + s for p, s in zip(self.parts, start, strict=False)])
        return source, target

    @classmethod
    def from_spec(cls, *parts: Topology) -> Batch:
        return cls(parts)

    def _write_spec(self) -> str:
        return f"Batch({', '.join([p.spec for p in self.parts])})"

    def __repr__(self) -> str:
        kinds = ", ".join(sorted({type(p).__name__ for p in self.parts}))
        return f"Batch({len(self.parts)} × {kinds}: {self.num_nodes} nodes, {self.num_edges} edges)"

    @derived
    def is_acyclic(self) -> bool:
        return all(p.is_acyclic for p in self.parts)

    @derived
    def is_forest(self) -> bool:
        return all(p.is_forest for p in self.parts)

    @derived
    def diameter(self) -> int:
        return max(p.diameter for p in self.parts)

    @derived
    def directed_paths(self) -> PathPlan | None:
        return self._join_paths([p.directed_paths for p in self.parts])

    @derived
    def undirected_paths(self) -> PathPlan | None:
        return self._join_paths([p.undirected_paths for p in self.parts])

    def _join_paths(self, plans: list[PathPlan | None]) -> PathPlan | None:
        joined: dict[str, list[Any]] = {"nodes": [], "ahead": [], "back": []}
        node, edge = 0, 0
        for part, plan in zip(self.parts, plans, strict=True):
            if plan is None:
                return None
            nodes = np.arange(part.num_nodes) if plan.nodes is None else plan.nodes
            joined["nodes"].append(nodes + node)
            for name in ("ahead", "back"):
                edges = getattr(plan, name)
                joined[name].append(np.where(edges == part.num_edges, self.num_edges, edges + edge))
            node, edge = node + part.num_nodes, edge + part.num_edges
        nodes, ahead, back = (np.concatenate(arrays) for arrays in joined.values())
        return PathPlan(None if np.array_equal(nodes, np.arange(self.num_nodes)) else nodes, ahead, back)

    def _plan_elimination(self, limit: int) -> EliminationPlan:
        plans = [p.elimination_plan(limit) for p in self.parts]
        if (entries := sum(p.fill for p in plans)) > limit:
            raise TooMuchFill(entries, entries)
        return join_plans(plans)

    def flip(self) -> Batch:
        """The union of the flipped parts."""
        (flipped,) = self.related(Batch, _flip)
        return flipped

    def dags(self, *args: Any, **kwargs: Any) -> tuple[Batch, ...]:
        """Unions of the parts' DAGs, first with first and so on; arguments are passed to each part."""
        options = tuple([(name, hashable(value)) for name, value in kwargs.items()])
        return self.related(Batch, _dags, tuple([hashable(a) for a in args]), options)


def _flip(batch: Batch) -> tuple[Batch]:
    return (Batch(tuple(p.flip() for p in batch.parts)),)


def _dags(batch: Batch, args: tuple, options: tuple) -> tuple[Batch, ...]:
    pieces = [p.dags(*args, **dict(options)) for p in batch.parts]
    if len({len(p) for p in pieces}) > 1:
        counts = sorted({(type(p).__name__, len(d)) for p, d in zip(batch.parts, pieces, strict=True)})
        raise TopologyError(
            f"the parts of a batch must have the same number of DAGs, found {counts}; batch topologies of one kind"
        )
    return tuple(Batch(row) for row in zip(*pieces, strict=True))


def batch(topologies: Sequence[Topology]) -> Batch:
    """Disjoint union of topologies, nodes and edges concatenated in order; batches are split into their parts first."""
    if not isinstance(topologies, Iterable):
        raise TopologyError(f"batch takes a sequence of topologies, found {topologies!r}; put it in a list")
    topologies = list(topologies)
    for t in topologies:
        if not isinstance(t, Topology):
            raise TopologyError(f"batch takes a sequence of topologies, found {type(t).__name__} in it")
    if not topologies:
        raise TopologyError("batch needs at least one topology, found none")
    return Batch(tuple(part for t in topologies for part in t.parts)).to(topologies[0].device)
