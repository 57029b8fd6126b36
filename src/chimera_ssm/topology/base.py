"""The base class of all topologies: nodes, ordered edges, structure, and plans for solvers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import plans, traversal
from chimera_ssm.topology.cache import derived, outside_contexts
from chimera_ssm.topology.plans import BlockPlan, FactorPlan, LevelPlan, PathPlan
from chimera_ssm.topology.registry import Identity
from chimera_ssm.topology.symbolic_lu import EliminationPlan, TooMuchFill, plan_elimination, plan_factors

Array = np.ndarray


class Topology(Identity):
    """A graph of nodes 0 … T−1 and edges ``source → target`` in a fixed order.

    Immutable: `flip`, `to` and `dags` return new topologies. Two topologies are equal if they have the same class,
    nodes and edges; the device does not matter. Derived structure (levels, paths, elimination ordering, …) is computed
    on first use and cached; equal topologies share it. A pickle holds nodes and edges, which are checked when read.

    Inside a function compiled by PyTorch a topology is a constant identified by its key, and so is derived structure.

    Args:
        key: the call that builds the topology, as text; equal keys mean equal topologies.
        num_nodes: T.
        num_edges: E.
        num_parts: number of graphs in a disjoint union, else 1.
        content: further attributes that define the topology.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes} nodes, {self.num_edges} edges)"

    # Nodes and edges

    @derived
    def _ends(self) -> tuple[Array, Array]:
        """Source and target of each edge, ``[E]`` each."""
        source, target = self._find_ends()
        return read_only(source), read_only(target)

    def _find_ends(self) -> tuple[Array, Array]:
        raise NotImplementedError

    @property
    def _source(self) -> Array:
        return self._ends[0]

    @property
    def _target(self) -> Array:
        return self._ends[1]

    @property
    def _edges(self) -> tuple[int, Array, Array]:
        """Arguments of the functions in `traversal`."""
        return self.num_nodes, *self._ends

    @property
    def edge_index(self) -> torch.Tensor:
        """Edges ``[2, E]``, int64: row 0 the source j, row 1 the target i. A copy at each call."""
        return self._copy("edge_index")

    @derived
    def _edge_index(self) -> Array:
        return np.stack(self._ends)

    @property
    def in_degree(self) -> torch.Tensor:
        """Number of edges into each node, ``[T]``. A copy at each call."""
        return self._copy("in_degree")

    @derived
    def _in_degree(self) -> Array:
        return np.bincount(self._target, minlength=self.num_nodes)

    def find_edges(self, source: Array, target: Array) -> Array:
        """Numbers of the edges ``source[k] → target[k]``, all of which must exist."""
        codes = self._source * self.num_nodes + self._target
        by_code = np.argsort(codes)
        return by_code[np.searchsorted(codes[by_code], source * self.num_nodes + target)]

    @derived
    def _reverse_edges(self) -> Array:
        """Number of each edge's reverse, ``[E]``; symmetric topologies only."""
        return self.find_edges(self._target, self._source)

    def _copy(self, name: str) -> torch.Tensor:
        """A derived array as a tensor that the caller may write to."""
        if torch.compiler.is_dynamo_compiling():
            return self.cached(_array, name, device=self.device).clone()
        with outside_contexts():
            return self.cached(_array, name, device=self.device).clone()

    # Parts of a disjoint union

    @property
    def parts(self) -> tuple[Topology, ...]:
        """The graphs of a disjoint union; the topology itself if it is not a union."""
        return (self,)

    @derived
    def part_sizes(self) -> Array:
        """Number of nodes of each part; read-only."""
        return read_only(np.array([p.num_nodes for p in self.parts]))

    @derived
    def _part(self) -> Array:
        """Part of each node, ``[T]``."""
        return np.repeat(np.arange(len(self.parts)), self.part_sizes)

    # Structure

    @property
    def is_acyclic(self) -> bool:
        """Whether there is no directed cycle."""
        raise NotImplementedError

    @derived
    def is_forest(self) -> bool:
        """Whether the undirected graph without self-loops has no cycle: a disjoint union of trees."""
        return traversal.is_forest(*self._edges)

    @derived
    def is_tree(self) -> bool:
        """Whether the undirected graph without self-loops is one tree."""
        return self.is_forest and bool((traversal.components(*self._edges) == 0).all())

    @derived
    def is_symmetric(self) -> bool:
        """Whether every edge has its reverse: an undirected graph."""
        forward = np.sort(self._source * self.num_nodes + self._target)
        return np.array_equal(forward, np.sort(self._target * self.num_nodes + self._source))

    @property
    def levels(self) -> torch.Tensor:
        """Length of the longest path that ends in each node, ``[T]``; acyclic topologies only. A copy at each call."""
        return self._copy("levels")

    @derived
    def _levels(self) -> Array:
        self._require_acyclic("levels")
        return traversal.levels(*self._edges)

    @property
    def topological_order(self) -> torch.Tensor:
        """Nodes ordered such that every edge leads forward, ``[T]``; acyclic ones only. A copy at each call."""
        return self._copy("topological_order")

    @derived
    def _topological_order(self) -> Array:
        # Where possible the order of the node numbers, which keeps neighbours together in memory.
        nodes = np.arange(self.num_nodes)
        if (self._source < self._target).all():
            return nodes
        if (self._source > self._target).all():
            return nodes[::-1].copy()
        return np.argsort(self._levels, kind="stable")

    @derived
    def longest_path(self) -> int:
        """Number of edges of the longest path; acyclic topologies only."""
        self._require_acyclic("a longest path")
        return int(self._levels.max())

    @derived
    def diameter(self) -> int:
        """Largest finite distance between two nodes.

        Above 20,000 nodes an upper bound: twice an eccentricity in an undirected graph, the longest path in
        an acyclic one.
        """
        if self.num_nodes <= traversal.EXACT_DIAMETER_NODES:
            return traversal.largest_distance(*self._edges)
        if self.is_acyclic:
            return self.longest_path
        if self.is_symmetric:
            return traversal.diameter_bound(*self._edges)
        raise TopologyError(
            "the diameter of a directed graph with cycles is computed up to "
            f"{traversal.EXACT_DIAMETER_NODES:,} nodes, and this one has {self.num_nodes:,}; "
            "state the number of terms, e.g. Neumann(terms=64)"
        )

    def _require_acyclic(self, what: str) -> None:
        if not self.is_acyclic:
            raise TopologyError(
                f"only an acyclic topology has {what}, and {self!r} has cycles; "
                "use one of its dags(), or a solver for general graphs"
            )

    # Plans for the solvers

    @derived
    def directed_paths(self) -> PathPlan | None:
        """Layout of disjoint directed paths as one line with breaks; ``None`` for other graphs."""
        nodes = traversal.directed_paths(*self._edges)
        return None if nodes is None else plans.path_plan(nodes, *self._ends)

    @derived
    def undirected_paths(self) -> PathPlan | None:
        """Layout of disjoint undirected paths as one line with breaks; ``None`` for other graphs."""
        nodes = traversal.undirected_paths(*self._edges)
        return None if nodes is None else plans.path_plan(nodes, *self._ends)

    @derived
    def level_plan(self) -> LevelPlan:
        """Edges sorted by the level of their target; acyclic topologies only."""
        return plans.level_plan(self._levels, *self._ends)

    @derived
    def block_plan(self) -> BlockPlan:
        """Dense blocks, nodes in the order of their numbers."""
        return plans.block_plan(self._part, self.part_sizes, np.arange(self.num_nodes), *self._ends)

    @derived
    def sorted_block_plan(self) -> BlockPlan:
        """Dense blocks, nodes in topological order: triangular; acyclic topologies only."""
        return plans.block_plan(self._part, self.part_sizes, np.lexsort((self._levels, self._part)), *self._ends)

    def elimination_plan(self, limit: int) -> EliminationPlan:
        """Ordering and fill of a sparse LU; raises `TooMuchFill` beyond ``limit`` entries of L and U."""
        search = self._elimination
        if search.plan is None and search.entries <= limit:
            try:
                search.plan = self._plan_elimination(limit)
                search.entries = search.filled = search.plan.fill
            except TooMuchFill as error:
                search.entries, search.filled = error.entries, error.filled
        if search.plan is None or search.entries > limit:
            raise TooMuchFill(search.entries, search.filled)
        return search.plan

    @derived
    def _elimination(self) -> _EliminationSearch:
        return _EliminationSearch()

    def _plan_elimination(self, limit: int) -> EliminationPlan:
        return plan_elimination(*self._edges, limit)

    @derived
    def factor_plan(self) -> FactorPlan:
        """Schedule of the sparse LU with the ordering of `elimination_plan`."""
        return plan_factors(self.elimination_plan(sys.maxsize), *self._ends)

    # New topologies

    def flip(self) -> Topology:
        """The same graph with every edge reversed, in the same edge order: its A is Aᵀ."""
        raise NotImplementedError

    def dags(self) -> tuple[Topology, ...]:
        """Acyclic topologies on the same nodes that together replace this one."""
        raise NotImplementedError


@dataclass
class _EliminationSearch:
    """The plan and its fill, or what the search with the largest limit so far found, see `TooMuchFill`."""

    plan: EliminationPlan | None = None
    entries: int = 0
    filled: int = 0


def _array(topology: Topology, name: str) -> Array:
    return getattr(topology, "_" + name)


def read_only(array: Array) -> Array:
    """The array, no longer writeable."""
    array.flags.writeable = False
    return array


def hashable(value: Any) -> Any:
    """A sequence as a tuple, anything else as it is."""
    return tuple(value) if isinstance(value, (Sequence, np.ndarray)) else value
