"""How a mixer treats each kind of data: its convolution, its step sizes, which B and C, and the weights they give.

One class for each kind of topology. Options belong to the kind that has them; the mixer knows none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.adjacency import (
    INJECTIONS,
    Adjacency,
    dag_adjacency,
    graph_adjacency,
    grid_adjacency,
    undirected_line_adjacency,
)
from chimera_ssm.errors import TopologyError
from chimera_ssm.nn.conv import LocalConv, NeighbourConv, WindowConv
from chimera_ssm.topology import DAG, Batch, Graph, Grid, Line, Topology, UndirectedLine

SHARING = ("none", "complete", "row", "diagonal")


@dataclass(frozen=True)
class Kind(ABC):
    """What a mixer must know of the topologies it will meet.

    Args:
        injection: β of B̄ = β B, ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; if
            omitted, ``"hold"`` where the row sums of A are at most one whatever the steps, else ``"step"``.

    Attributes:
        streams: whether the mixer has a recurrent form on a directed line.
        edge_features: whether edges may have a step of their own.
        edge_step_scale: factor of the range that the edges' initial steps are drawn from.
    """

    injection: str | None = field(default=None, kw_only=True)

    streams: ClassVar[bool] = False
    edge_features: ClassVar[bool] = False
    edge_step_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.injection is None:
            object.__setattr__(self, "injection", "hold" if self.rows_are_bounded else "step")
        if self.injection not in INJECTIONS:
            raise ValueError(f"injection must be one of {INJECTIONS}, found {self.injection!r}")
        if self.injection == "hold" and not self.rows_are_bounded:
            raise ValueError(
                f"hold injection needs row sums of A of at most one, which {self} does not ensure; "
                'use injection="step" or "projected"'
            )

    @property
    def rows_are_bounded(self) -> bool:
        """Whether the row sums of A are at most one, whatever the steps."""
        return getattr(self, "normalize", "mean") in ("mean", "row")

    @property
    def num_injections(self) -> int:
        """Signed projections for each node and head: one for each term of the sum if injection is projected."""
        return len(self.sets) if self.injection == "projected" else 0

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Step sizes for each node and head."""

    @property
    def step_scales(self) -> tuple[float, ...]:
        """For each step the factor of the range that its initial values are drawn from."""
        return (1.0,) * self.num_steps

    @property
    def sets(self) -> tuple[int, ...]:
        """For each term of the mixer's sum the number of the pair (B, C) that it uses."""
        return (0,)

    @abstractmethod
    def conv(self, channels: int) -> LocalConv:
        """The local convolution."""

    @abstractmethod
    def accepts(self, topology: Topology) -> str | None:
        """What was expected, if ``topology`` is not of this kind; else ``None``."""

    @abstractmethod
    def terms(
        self,
        topology: Topology,
        steps: Tensor,
        edge_step: Tensor | None,
        node_mask: Tensor | None,
        projected: Tensor | None = None,
    ) -> list[tuple[Topology, Adjacency]]:
        """Topologies and weights whose mixes are added up.

        Shapes: ``steps [Z, H, S, T]``, ``edge_step [Z, H, E]``, ``projected [Z, H, num_injections, T]``.
        """

    def _injection(self, projected: Tensor | None, term: int = 0) -> str | Tensor:
        """The argument ``injection`` of the functions that give weights."""
        return str(self.injection) if projected is None else projected[:, :, term]


def _expect(topology: Topology, kind: type, what: str) -> str | None:
    return None if topology.found(_all_are, kind) else what


def _all_are(topology: Topology, kind: type) -> bool:
    return all(isinstance(part, kind) for part in topology.parts)


def _are_grids(topology: Topology, num_axes: int) -> bool:
    return all(isinstance(part, Grid) and part.num_axes == num_axes for part in topology.parts)


@dataclass(frozen=True)
class OnLine(Kind):
    """A directed line: text read one way, a time series. Causal; has a recurrent form.

    Args:
        step: ``"mean"``, or ``"target"`` for Mamba-2's steps.
    """

    step: str = "mean"

    streams: ClassVar[bool] = True
    num_steps: ClassVar[int] = 1

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=4, causal=True)

    def accepts(self, topology: Topology) -> str | None:
        return _expect(topology, Line, "a Line or a batch of lines")

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        injection = self._injection(projected)
        weights = dag_adjacency(topology, steps[:, :, 0], step=self.step, injection=injection, node_mask=node_mask)
        return [(topology, weights)]


@dataclass(frozen=True)
class OnTwoLines(Kind):
    """An undirected line as the line forward and the line backward, each with B, C and steps of its own."""

    num_steps: ClassVar[int] = 2
    sets: ClassVar[tuple[int, ...]] = (0, 1)

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=7)

    def accepts(self, topology: Topology) -> str | None:
        return _expect(topology, UndirectedLine, "an UndirectedLine or a batch of them")

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        return [
            (line, dag_adjacency(line, steps[:, :, d], injection=self._injection(projected, d), node_mask=node_mask))
            for d, line in enumerate(topology.dags())
        ]


@dataclass(frozen=True)
class OnUndirectedLine(Kind):
    """An undirected line with the exact resolvent of both directions at once (the paper's UG).

    Args:
        gamma: bound of the normalisation, at most 0.999.
    """

    gamma: float = 0.99

    num_steps: ClassVar[int] = 3
    #: The paper's range of steps would give a gain of 0.03, as rows sum to at most γ rather than to 1 − Δ.
    step_scales: ClassVar[tuple[float, ...]] = (20.0, 20.0, 20.0)
    rows_are_bounded: ClassVar[bool] = False

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=7)

    def accepts(self, topology: Topology) -> str | None:
        return _expect(topology, UndirectedLine, "an UndirectedLine or a batch of them")

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        delta, delta_source, psi = steps.unbind(2)
        weights = undirected_line_adjacency(
            topology,
            delta,
            psi,
            delta_source=delta_source,
            gamma=self.gamma,
            injection=self._injection(projected),
            node_mask=node_mask,
        )
        return [(topology, weights)]


@dataclass(frozen=True)
class OnGrid(Kind):
    """A grid as the DAGs from its 2**axes corners, with a step for each axis and corner.

    Args:
        num_axes: 2 for images, 3 for videos and volumes.
        sharing: which corners share B and C: ``"none"``, ``"complete"``, ``"row"`` (equal on the first axis) or
            ``"diagonal"`` (opposite corners).
        normalize: ``"mean"`` or ``"sqrt"``, see `dag_adjacency`.
    """

    num_axes: int = 2
    sharing: str = "diagonal"
    normalize: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sharing not in SHARING:
            raise ValueError(f"sharing must be one of {SHARING}, found {self.sharing!r}")
        if self.num_axes < 1:
            raise ValueError(f"a grid has at least one axis, found num_axes={self.num_axes}")

    @property
    def num_steps(self) -> int:
        return self.num_axes * 2**self.num_axes

    @property
    def step_scales(self) -> tuple[float, ...]:
        return (7.0,) * self.num_steps

    @property
    def sets(self) -> tuple[int, ...]:
        corners = range(2**self.num_axes)
        opposite = 2**self.num_axes - 1
        return tuple(
            {
                "none": c,
                "complete": 0,
                "row": c >> (self.num_axes - 1),
                "diagonal": min(c, opposite - c),
            }[self.sharing]
            for c in corners
        )

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=3, num_axes=self.num_axes)

    def accepts(self, topology: Topology) -> str | None:
        return (
            None
            if topology.found(_are_grids, self.num_axes)
            else f"a Grid with {self.num_axes} axes or a batch of them"
        )

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        steps, terms = steps.unflatten(2, (2**self.num_axes, self.num_axes)), []
        for d, dag in enumerate(topology.dags()):
            injection = self._injection(projected, d)
            weights = grid_adjacency(
                dag, steps[:, :, d], normalize=self.normalize, injection=injection, node_mask=node_mask
            )
            terms.append((dag, weights))
        return terms


@dataclass(frozen=True)
class OnRaster(Kind):
    """A grid read as a line in raster order, row after row: the resolvent is the line's, the convolution the grid's.

    It differs from `OnGrid` in the resolvent alone, for comparisons of topologies. The convolution is centred: even
    where the line is read forward only, a node's V, B and C depend on the nodes next to it that come later.

    Args:
        num_axes: 2 for images, 3 for videos and volumes.
        both: whether the line is also read backward, with B, C and steps of its own.
    """

    num_axes: int = 2
    both: bool = True

    @property
    def num_steps(self) -> int:
        return len(self.sets)

    @property
    def sets(self) -> tuple[int, ...]:
        return (0, 1) if self.both else (0,)

    def conv(self, channels: int) -> LocalConv:
        return OnGrid(self.num_axes).conv(channels)

    def accepts(self, topology: Topology) -> str | None:
        return OnGrid(self.num_axes).accepts(topology)

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        return [
            (line, dag_adjacency(line, steps[:, :, d], injection=self._injection(projected, d), node_mask=node_mask))
            for d, line in enumerate(topology.related(Batch, _raster_lines, self.both))
        ]


def _raster_lines(topology: Topology, both: bool) -> tuple[Batch, ...]:
    """The nodes of each part as a line, forward and, if ``both``, backward."""
    directions = (False, True) if both else (False,)
    lines = [Batch(tuple(Line(part.num_nodes, reverse) for part in topology.parts)) for reverse in directions]
    return tuple(line.to(topology.device) for line in lines)


@dataclass(frozen=True)
class OnDAG(Kind):
    """Any acyclic graph; a graph with cycles, alone or in a batch, is replaced by its `dags`, which share everything.

    Those are found from a root that depends on how nodes are numbered: with another numbering a graph with cycles gives
    another result, unlike with `OnGraph`.

    Args:
        normalize: ``"mean"`` or ``"sqrt"``, see `dag_adjacency`.
        num_roots: roots of the DAGs of a graph with cycles; each gives two, one away from it and one towards it.
    """

    normalize: str = "mean"
    num_roots: int = 1

    streams: ClassVar[bool] = True
    edge_features: ClassVar[bool] = True
    num_steps: ClassVar[int] = 1

    def conv(self, channels: int) -> LocalConv:
        return NeighbourConv(channels)

    def accepts(self, topology: Topology) -> str | None:
        return None

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        terms, dags = [], _dags(topology, self.num_roots)
        for d, dag in enumerate(dags):
            own = edge_step
            if edge_step is not None and not topology.is_acyclic:
                own = edge_step.index_select(-1, topology.found(_edges_of_dag, d, self.num_roots, edge_step.device))
            weights = dag_adjacency(
                dag,
                steps[:, :, 0],
                edge_step=own,
                normalize=self.normalize,
                injection=self._injection(projected),
                node_mask=node_mask,
            )
            if len(dags) > 1 and not topology.found(_equally_many, self.num_roots):
                weights = self._shared(weights, d, len(dags), topology.found(_counts, self.num_roots, steps.device))
            terms.append((dag, weights))
        return terms

    def _shared(self, weights: Adjacency, d: int, most: int, count: Tensor) -> Adjacency:
        """Weights on DAG ``d`` of ``most``, where nodes have ``count``: they are to be divided by √count, not √most."""
        share = torch.where(count > d, (most / count.to(weights.scale.dtype)).sqrt(), 0)
        return weights._replace(scale=weights.scale * share)


def _dags(topology: Topology, roots: int) -> tuple[Topology, ...]:
    """What stands for a topology: itself or its DAGs; each part of a union is as it is alone."""
    if topology.is_acyclic:
        return (topology,)
    if topology.num_parts == 1 and not isinstance(topology, Batch) and roots == 1:
        return topology.dags()
    return topology.related(Batch, _dags_of_parts, roots)


def _of_part(part: Topology, roots: int) -> tuple[Topology, ...]:
    if part.is_acyclic:
        return (part,)
    return part.dags(min(roots, part.num_nodes)) if isinstance(part, Graph) else part.dags()


def _equally_many(topology: Topology, roots: int) -> bool:
    """Whether as many DAGs stand for each part as for any other."""
    return len({len(_of_part(part, roots)) for part in topology.parts}) == 1


def _dags_of_parts(topology: Topology, roots: int) -> tuple[Batch, ...]:
    """The parts' DAGs, first with first and so on; a part that has no more of them is without edges."""
    bare = [part.once("bare", lambda n=part.num_nodes: DAG(n, np.empty((2, 0), int))) for part in topology.parts]
    rows = zip_longest(*(_of_part(part, roots) for part in topology.parts))
    unions = [Batch(tuple(dag or none for dag, none in zip(row, bare, strict=True))) for row in rows]
    return tuple(union.to(topology.device) for union in unions)


def _counts(topology: Topology, roots: int, device: torch.device) -> Tensor:
    """Number of DAGs that stand for the part of each node, ``[T]``."""
    counts = np.repeat([len(_of_part(part, roots)) for part in topology.parts], topology.part_sizes)
    return torch.from_numpy(counts).to(device)


def _edges_of_dag(topology: Topology, d: int, roots: int, device: torch.device) -> Tensor:
    """Numbers in ``topology`` of the edges of one of its DAGs."""
    return torch.from_numpy(topology.find_edges(*_dags(topology, roots)[d]._edge_index)).to(device)


@dataclass(frozen=True)
class OnGraph(Kind):
    """Any topology at all, as a general graph: the exact resolvent over all its paths.

    Args:
        gamma: bound of the row sums of A, between 0 and 1.
        directional: separate steps for the two ends of an edge; else one for both.
        normalize: ``"row"``, or ``"column"`` as in the authors' code, see `graph_adjacency`.
        shared_bias: one bias per head for all steps, as in the authors' code, which draws Ψ from their range, too.
    """

    gamma: float = 0.95
    directional: bool = True
    normalize: str = "row"
    shared_bias: bool = False

    streams: ClassVar[bool] = True
    edge_features: ClassVar[bool] = True
    #: Within a row only differences of steps matter: with steps near zero edges would all weigh the same.
    edge_step_scale: ClassVar[float] = 100.0

    @property
    def num_steps(self) -> int:
        return 3 if self.directional else 2

    @property
    def step_scales(self) -> tuple[float, ...]:
        if self.shared_bias:
            return (1.0,) * self.num_steps
        # Δ¹ also scales the step injection, whose gain would be 0.1 otherwise; row sums hardly depend on it.
        delta = 3.0 if self.injection == "step" else 1.0
        # Ψ begins between 0.1 and 10: row sums of A between half of γ and nearly γ. In the range of the steps all would
        # be near the half, and what a node hears would fall to a third with each hop; learning does not begin beyond 3.
        return (delta, 100.0, 1.0)[: self.num_steps]

    def conv(self, channels: int) -> LocalConv:
        return NeighbourConv(channels)

    def accepts(self, topology: Topology) -> str | None:
        return None

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        delta, psi = steps[:, :, 0], steps[:, :, 1]
        weights = graph_adjacency(
            topology,
            delta,
            psi,
            delta_source=steps[:, :, 2] if self.directional else None,
            edge_step=edge_step,
            gamma=self.gamma,
            normalize=self.normalize,
            injection=self._injection(projected),
            node_mask=node_mask,
        )
        return [(topology, weights)]


def check_kind(kind: Kind, topology: Topology) -> None:
    """Refuse a topology that a mixer's parameters do not fit."""
    if not isinstance(topology, Topology):
        raise TopologyError(f"expected a topology such as Line(8) or Graph(num_nodes, edge_index), found {topology!r}")
    if (expected := kind.accepts(topology)) is not None:
        raise TopologyError(
            f"a mixer {type(kind).__name__} needs {expected}, found {topology!r}; "
            "Chimera(dim, kind=OnGraph()) takes any topology"
        )
