"""What all topologies share: nodes, ordered edges, structure found once and kept, and integer tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import registry, traversal
from chimera_ssm.topology.plans import (
    BlockPlan,
    FactorPlan,
    LevelPlan,
    PathPlan,
    Schedule,
    block_plan,
    on_device,
)
from chimera_ssm.topology.symbolic_lu import EliminationPlan, TooMuchFill, plan_elimination, plan_factors

if TYPE_CHECKING:
    from typing_extensions import Self

Array = np.ndarray


class Topology:
    """A graph of nodes 0 … T−1 and edges ``source → target`` in a fixed order.

    Immutable: `flip`, `to` and `dags` give new topologies. Two topologies are equal if they are of one
    class and have the same nodes and edges; the device does not matter. Structure (levels, paths,
    elimination order, …) is found on first use and kept. A pickle holds nodes, edges and the elimination
    order, all of which are checked when it is read; the rest follows from them.

    Inside a function compiled by PyTorch a topology is a constant known by its key, and so is what is made of it.

    Args:
        key: says which topology this is, as the call that builds it; equal keys, equal topologies.
        num_nodes: T.
        num_edges: E.
        num_parts: number of graphs that this one is the disjoint union of.
    """

    key: str
    num_nodes: int
    num_edges: int
    num_parts: int
    device: torch.device
    _kept: dict[Hashable, Any]

    def __init__(self, key: str, num_nodes: int, num_edges: int, num_parts: int = 1):
        self._fill(key, num_nodes, num_edges, num_parts, torch.device("cpu"))
        if not torch.compiler.is_dynamo_compiling():
            registry.remember(key, self)

    def _fill(self, key: str, num_nodes: int, num_edges: int, num_parts: int, device: torch.device) -> None:
        # Plain strings and integers in __dict__, which a compiled function guards by their values.
        self.__dict__.update(
            key=key, num_nodes=num_nodes, num_edges=num_edges, num_parts=num_parts, device=device, _kept={}
        )

    # Identity

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Topology) and type(self) is type(other) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes} nodes, {self.num_edges} edges)"

    def __reduce__(self) -> tuple[Any, ...]:
        return registry.restore, (self.spec, tuple(_known_order(part) for part in self.parts))

    @property
    def spec(self) -> str:
        """The whole topology as text, from which `registry.topology_of` builds it again in any process."""
        return self.found(_spec)

    def _write_spec(self) -> str:
        return self.key

    @classmethod
    def from_spec(cls, *args: Any, **options: Any) -> Self:
        """The topology for the arguments written in a specification."""
        return cls(*args, **options)

    # Nodes and edges

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Source and target of each edge, ``[E]`` each."""
        source, target = self._find_ends()
        return read_only(source), read_only(target)

    def _find_ends(self) -> tuple[Array, Array]:
        raise NotImplementedError

    @cached_property
    def _source(self) -> Array:
        return self._ends[0]

    @cached_property
    def _target(self) -> Array:
        return self._ends[1]

    @property
    def edge_index(self) -> torch.Tensor:
        """Edges ``[2, E]``, int64: row 0 the source j, row 1 the target i. A copy at each call."""
        return self._copy("edge_index")

    @cached_property
    def _edge_index(self) -> Array:
        return np.stack([self._source, self._target])

    @property
    def in_degree(self) -> torch.Tensor:
        """Number of edges into each node, ``[T]``. A copy at each call."""
        return self._copy("in_degree")

    @cached_property
    def _in_degree(self) -> Array:
        return np.bincount(self._target, minlength=self.num_nodes)

    def find_edges(self, source: Array, target: Array) -> Array:
        """Numbers of the edges ``source[k] → target[k]``, all of which must exist."""
        codes = self._source * self.num_nodes + self._target
        by_code = np.argsort(codes)
        return by_code[np.searchsorted(codes[by_code], source * self.num_nodes + target)]

    @cached_property
    def _reverse_edges(self) -> Array:
        """Number of each edge's reverse, ``[E]``; symmetric topologies only."""
        return self.find_edges(self._target, self._source)

    # Parts: a union remembers what it is made of

    @property
    def parts(self) -> tuple[Topology, ...]:
        """The graphs that this one is the disjoint union of; itself alone if it was not batched."""
        return (self,)

    @cached_property
    def part_sizes(self) -> Array:
        """Number of nodes of each part; read-only."""
        return read_only(np.array([p.num_nodes for p in self.parts]))

    @cached_property
    def _part(self) -> Array:
        """Part that each node belongs to, ``[T]``."""
        return np.repeat(np.arange(len(self.parts)), self.part_sizes)

    # Structure

    @property
    def is_acyclic(self) -> bool:
        """Whether no path returns to its start."""
        raise NotImplementedError

    @cached_property
    def is_forest(self) -> bool:
        """Whether the graph, directions and self-loops forgotten, has no cycle: trees side by side."""
        return traversal.is_forest(self.num_nodes, self._source, self._target)

    @cached_property
    def is_tree(self) -> bool:
        """Whether the graph is one tree, directions and self-loops forgotten."""
        components = traversal.components(self.num_nodes, self._source, self._target)
        return self.is_forest and bool((components == 0).all())

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every edge has its reverse: an undirected graph."""
        forward = np.sort(self._source * self.num_nodes + self._target)
        return np.array_equal(forward, np.sort(self._target * self.num_nodes + self._source))

    @property
    def levels(self) -> torch.Tensor:
        """Length of the longest path that ends in each node, ``[T]``; acyclic topologies only. A copy at each call."""
        return self._copy("levels")

    @cached_property
    def _levels(self) -> Array:
        self._require_acyclic("levels")
        return traversal.levels(self.num_nodes, self._source, self._target)

    @property
    def topological_order(self) -> torch.Tensor:
        """Nodes in an order in which every edge leads forward, ``[T]``; acyclic ones only. A copy at each call."""
        return self._copy("topological_order")

    @cached_property
    def _topological_order(self) -> Array:
        # The nodes' own order keeps neighbours together in memory, where it will do.
        nodes = np.arange(self.num_nodes)
        if (self._source < self._target).all():
            return nodes
        if (self._source > self._target).all():
            return nodes[::-1].copy()
        return np.argsort(self._levels, kind="stable")

    @cached_property
    def longest_path(self) -> int:
        """Edges of the longest path; acyclic topologies only."""
        self._require_acyclic("a longest path")
        return int(self._levels.max())

    @cached_property
    def diameter(self) -> int:
        """Largest finite distance between two nodes.

        Above 20,000 nodes an upper bound: twice an eccentricity in an undirected graph, the longest path in
        an acyclic one.
        """
        if self.num_nodes <= traversal.EXACT_DIAMETER_NODES:
            return traversal.largest_distance(self.num_nodes, self._source, self._target)
        if self.is_acyclic:
            return self.longest_path
        if self.is_symmetric:
            roots = np.unique(traversal.components(self.num_nodes, self._source, self._target))
            return 2 * int(traversal.distances(self.num_nodes, self._source, self._target, roots).max())
        raise TopologyError(
            f"the diameter of a directed graph with cycles is found up to {traversal.EXACT_DIAMETER_NODES:,} nodes, "
            f"and this one has {self.num_nodes:,}; state the number of terms, e.g. Neumann(terms=64)"
        )

    # Plans for the solvers

    @cached_property
    def directed_paths(self) -> PathPlan | None:
        """Layout of a graph of disjoint directed paths as one broken line; ``None`` for other graphs."""
        nodes = traversal.directed_paths(self.num_nodes, self._source, self._target)
        return None if nodes is None else self._lay_out(nodes)

    @cached_property
    def undirected_paths(self) -> PathPlan | None:
        """Layout of a graph of disjoint undirected paths as one broken line; ``None`` for other graphs."""
        nodes = traversal.undirected_paths(self.num_nodes, self._source, self._target)
        return None if nodes is None else self._lay_out(nodes)

    def _lay_out(self, nodes: Array) -> PathPlan:
        place = np.empty_like(nodes)
        place[nodes] = np.arange(self.num_nodes)
        forward = place[self._source] < place[self._target]
        ahead, back = np.full((2, self.num_nodes), self.num_edges)
        ahead[place[self._target[forward]]] = np.flatnonzero(forward)
        back[place[self._target[~forward]]] = np.flatnonzero(~forward)
        in_order = np.array_equal(nodes, np.arange(self.num_nodes))
        return PathPlan(None if in_order else nodes, ahead, back)

    @cached_property
    def level_plan(self) -> LevelPlan:
        """Edges sorted by the level of their target; acyclic topologies only."""
        depth = self._levels[self._target]
        edges = np.argsort(depth, kind="stable")
        bounds = np.searchsorted(depth[edges], np.arange(1, self.longest_path + 2))
        return LevelPlan(edges, Schedule(self._source[edges], self._target[edges], tuple(bounds.tolist())))

    @cached_property
    def block_plan(self) -> BlockPlan:
        """Dense blocks, nodes in their own order."""
        return self._blocks(np.arange(self.num_nodes))

    @cached_property
    def sorted_block_plan(self) -> BlockPlan:
        """Dense blocks, nodes in topological order: triangular; acyclic topologies only."""
        return self._blocks(np.lexsort((self._levels, self._part)))

    def _blocks(self, nodes: Array) -> BlockPlan:
        return block_plan(self._part, self.part_sizes, nodes, self._source, self._target)

    def elimination_plan(self, limit: int) -> EliminationPlan:
        """Order and fill of a sparse LU; raises `TooMuchFill` beyond ``limit`` entries of L and U."""
        known = self.__dict__.get("_elimination", (0, 0))
        if isinstance(known, tuple) and known[0] <= limit:
            try:
                known = self._plan_elimination(limit)
            except TooMuchFill as error:
                known = error.entries, error.filled
            self.__dict__["_elimination"] = known
        if isinstance(known, tuple):
            raise TooMuchFill(*known)
        return known

    @property
    def elimination_order(self) -> Array | None:
        """The order of elimination, ``[T]``, where one has been found or adopted; else ``None``."""
        plan = self.__dict__.get("_elimination")
        return plan.order if isinstance(plan, EliminationPlan) else self.__dict__.get("_order")

    def adopt_order(self, order: Array) -> None:
        """Eliminate nodes in an order that was found before, for example one kept in a file, instead of searching.

        Every order gives the same results; a bad one takes more time, and one with too much fill is not used.
        """
        order = np.asarray(order)
        if order.shape != (self.num_nodes,) or not np.issubdtype(order.dtype, np.integer):
            raise TopologyError(
                f"an elimination order of {self!r} must be {self.num_nodes} integers, found {order.dtype} "
                f"{list(order.shape)}"
            )
        if not np.array_equal(np.sort(order), np.arange(self.num_nodes)):
            raise TopologyError(
                f"an elimination order of {self!r} must name each node from 0 to {self.num_nodes - 1} once, and this "
                f"one does not"
            )
        if self.elimination_order is None:
            self.__dict__["_order"] = order.astype(np.int64)

    @cached_property
    def factor_plan(self) -> FactorPlan:
        """Schedule of the sparse LU that `elimination_plan` found."""
        return plan_factors(self.elimination_plan(sys.maxsize), self._source, self._target)

    def _plan_elimination(self, limit: int) -> EliminationPlan:
        return plan_elimination(self.num_nodes, self._source, self._target, limit, self.__dict__.get("_order"))

    # New topologies

    def flip(self) -> Topology:
        """The same graph with every edge reversed, in the same edge order: its A is Aᵀ."""
        raise NotImplementedError

    def dags(self) -> tuple[Topology, ...]:
        """Acyclic topologies on the same nodes that together replace this one."""
        raise NotImplementedError

    def to(self, device: torch.device | str) -> Self:
        """The same topology with its tensors on ``device``; what is known of its structure is shared."""
        device = torch.device(device)
        if device == self.device:
            return self
        moved = object.__new__(type(self))
        moved.__dict__.update(self.__dict__, device=device, _kept={})
        registry.remember(self.key, moved)
        return moved

    def _relatives(
        self, kind: type[Relative], make: Callable[..., tuple[Relative, ...]], *args: Any
    ) -> tuple[Relative, ...]:
        """The topologies ``make(self, *args)`` of one kind, kept; in a compiled function known by their keys only."""
        if torch.compiler.is_dynamo_compiling():
            return tuple(_known(kind, *facts, self.device) for facts in _found(self.key, _facts, make, *args)[0])
        return self.once((make, repr(args)), lambda: make(self, *args))  # True is not 1 here

    # What is made of it once

    def tensors(self, name: str, device: torch.device) -> Any:
        """An integer array, or a plan of several, as tensors on a device: made once, then kept. Never to be written.

        ``name`` is an attribute of the topology, with or without a leading underscore.
        """
        return self.found(_tensors, name, device)

    def _copy(self, name: str) -> torch.Tensor:
        """An array as a tensor that may be written: the topology does not change."""
        if torch.compiler.is_dynamo_compiling():
            return self.tensors(name, self.device).clone()
        with _outside_contexts():
            return self.tensors(name, self.device).clone()

    def found(self, make: Callable[..., Any], *args: Any) -> Any:
        """The value of ``make(self, *args)``, kept; a constant in a compiled function, which then depends on the key.

        Args:
            make: a function of a module, of the topology alone; gives tensors, numbers or strings.
            args: hashable constants.
        """
        if torch.compiler.is_dynamo_compiling():
            (value,) = _found(self.key, make, *args)
            return (
                value.detach() if isinstance(value, torch.Tensor) else value
            )  # a constant's shape cannot be asked for
        return self.once((make, *args), lambda: make(self, *args))

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, kept under ``key`` for as long as the topology lives; not pickled."""
        if torch.compiler.is_dynamo_compiling():
            return make()  # traced once anyway
        if key not in self._kept:
            with _outside_contexts():
                self._kept[key] = make()
        return self._kept[key]

    def _require_acyclic(self, what: str) -> None:
        if not self.is_acyclic:
            raise TopologyError(
                f"only an acyclic topology has {what}, and {self!r} has cycles; "
                "use one of its dags(), or a solver for general graphs"
            )


Relative = TypeVar("Relative", bound=Topology)


@contextmanager
def _outside_contexts() -> Generator[None]:
    """For tensors that outlive the inference or tracing context they are made in."""
    with torch.inference_mode(False), _disable_current_modes():
        yield


@torch.compiler.assume_constant_result
def _found(key: str, make: Callable[..., Any], *args: Any) -> tuple[Any]:
    """What the topology with this key finds: called while a function is being compiled, and a constant of it then.

    In a tuple: PyTorch names a tensor after the function that gave it, and refuses a second one of the same name.
    """
    value = registry.topology_of(key).found(make, *args)
    if isinstance(value, torch.Tensor):
        torch._dynamo.mark_static(value)  # its sizes are those of the topology, also where others are symbolic
    return (value,)


def _known(kind: type[Relative], key: str, num_nodes: int, num_edges: int, num_parts: int, device: Any) -> Relative:
    """A topology of which a compiled function knows the key, and asks everything else by it."""
    topology = object.__new__(kind)
    topology._fill(key, num_nodes, num_edges, num_parts, device)
    return topology


def _facts(topology: Topology, make: Callable[..., tuple[Topology, ...]], *args: Any) -> tuple:
    relatives = topology._relatives(Topology, make, *args)
    return tuple((t.key, t.num_nodes, t.num_edges, t.num_parts) for t in relatives)


def _tensors(topology: Topology, name: str, device: torch.device) -> Any:
    attribute = "_" + name if hasattr(topology, "_" + name) else name
    return on_device(getattr(topology, attribute), device)


def _spec(topology: Topology) -> str:
    spec = topology._write_spec()
    registry.remember(spec, topology)
    return spec


def _known_order(topology: Topology) -> bytes | None:
    order = topology.elimination_order
    return None if order is None else order.astype("<i4").tobytes()


def read_only(array: Array) -> Array:
    """The array, which nobody can write to from now on."""
    array.flags.writeable = False
    return array


def hashable(value: Any) -> Any:
    """A sequence as a tuple, anything else as it is."""
    return tuple(value) if isinstance(value, (Sequence, np.ndarray)) else value


def check_num_nodes(num_nodes: object) -> int:
    """A number of nodes: an integer of at least one."""
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, (int, np.integer)):
        raise TopologyError(f"the number of nodes must be an integer, found {num_nodes!r}")
    if num_nodes < 1:
        raise TopologyError(f"a topology needs at least one node, found {num_nodes}; leave empty ones out")
    return index(num_nodes)  # a constant, also where sizes are symbolic in a compiled function


def check_edges(num_nodes: int, edge_index: torch.Tensor | Array | Sequence) -> tuple[Array, Array]:
    """Sources and targets of a valid ``edge_index [2, E]``: integers, in range, no edge twice."""
    if isinstance(edge_index, torch.Tensor):
        _require_integers(
            edge_index.numel() == 0 or not (edge_index.is_floating_point() or edge_index.dtype == torch.bool),
            edge_index.dtype,
        )
        edge_index = edge_index.detach().long().cpu().numpy() if edge_index.numel() else np.empty(edge_index.shape, int)
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise TopologyError(
            f"edge_index must have shape [2, E], found {list(edges.shape)}; a list of (source, target) pairs is "
            "turned around with numpy.transpose, and no edges at all are numpy.empty((2, 0), int)"
        )
    _require_integers(edges.size == 0 or np.issubdtype(edges.dtype, np.integer), edges.dtype)
    source, target = np.array(edges, dtype=np.int64)
    outside = np.flatnonzero((np.minimum(source, target) < 0) | (np.maximum(source, target) >= num_nodes))
    if outside.size:
        e = outside[0]
        raise TopologyError(
            f"edge {e} ({source[e]} → {target[e]}) is out of range: nodes are numbered 0 to {num_nodes - 1}; "
            "correct the edge or raise num_nodes"
        )
    _refuse_duplicates(num_nodes, source, target)
    return source, target


def _require_integers(fulfilled: bool, dtype: object) -> None:
    if not fulfilled:
        raise TopologyError(f"edge_index must hold integers, found {dtype}; convert it with .long()")


def _refuse_duplicates(num_nodes: int, source: Array, target: Array) -> None:
    codes = source * num_nodes + target
    by_code = np.argsort(codes, kind="stable")
    twice = np.flatnonzero(np.diff(codes[by_code]) == 0)
    if twice.size:
        first, second = by_code[twice[0]], by_code[twice[0] + 1]
        raise TopologyError(
            f"edge {source[first]} → {target[first]} appears more than once (columns {first} and {second}); "
            "merge duplicates with edge_index, edge_attr = chimera_ssm.merge_edges(edge_index, edge_attr)"
        )
