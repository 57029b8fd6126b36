"""Grids: as the DAGs from their corners, as undirected graphs, or as lines in raster order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from chimera_ssm.adjacency import dag_adjacency, grid_adjacency
from chimera_ssm.nn.kinds.base import Kind
from chimera_ssm.nn.kinds.graph import OnGraph
from chimera_ssm.nn.local_conv import LocalConv
from chimera_ssm.nn.window_conv import WindowConv
from chimera_ssm.topology import Batch, Grid, Line, Topology

SHARING = ("none", "complete", "row", "diagonal")


@dataclass(frozen=True)
class OnGrid(Kind):
    """A grid as the DAGs from its 2**axes corners, with one step size per axis and corner.

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
        corners, last = range(2**self.num_axes), 2**self.num_axes - 1
        index: dict[str, Callable[[int], int]] = {
            "none": lambda corner: corner,
            "complete": lambda corner: 0,
            "row": lambda corner: corner >> (self.num_axes - 1),
            "diagonal": lambda corner: min(corner, last - corner),
        }
        return tuple(index[self.sharing](corner) for corner in corners)

    def conv(self, channels: int) -> LocalConv:
        return WindowConv(channels, width=3, num_axes=self.num_axes)

    def mismatch(self, topology: Topology) -> str | None:
        if topology.cached(_are_grids, self.num_axes):
            return None
        return f"a Grid with {self.num_axes} axes or a batch of them"

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
class OnUndirectedGrid(OnGraph):
    """A grid as an undirected graph: the exact resolvent over all its paths with the convolution of the grid.

    Args:
        gamma: see `OnGraph`, like the others.
        directional: whether the two ends of an edge have separate steps.
        normalize: of rows or columns.
        shared_bias: whether all steps of a head share one bias.
        num_axes: 2 for images, 3 for videos and volumes.
    """

    num_axes: int = 2

    streams: ClassVar[bool] = False

    def conv(self, channels: int) -> LocalConv:
        return OnGrid(self.num_axes).conv(channels)

    def mismatch(self, topology: Topology) -> str | None:
        return OnGrid(self.num_axes).mismatch(topology)


@dataclass(frozen=True)
class OnRaster(Kind):
    """A grid as a line in raster order: the resolvent of the line with the convolution of the grid.

    Only the resolvent differs from `OnGrid`, for comparisons of topologies. The convolution is centred: even if the
    line has only the forward direction, V, B and C of a node depend on neighbours that follow it.

    Args:
        num_axes: 2 for images, 3 for videos and volumes.
        both: whether to add the backward line, with separate B, C and steps.
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

    def mismatch(self, topology: Topology) -> str | None:
        return OnGrid(self.num_axes).mismatch(topology)

    def terms(self, topology, steps, edge_step, node_mask, projected=None):
        return [
            (line, dag_adjacency(line, steps[:, :, d], injection=self._injection(projected, d), node_mask=node_mask))
            for d, line in enumerate(topology.related(Batch, _raster_lines, self.both))
        ]


def _are_grids(topology: Topology, num_axes: int) -> bool:
    return all(isinstance(part, Grid) and part.num_axes == num_axes for part in topology.parts)


def _raster_lines(topology: Topology, both: bool) -> tuple[Topology, ...]:
    """The nodes of each part as a line: forward and, if ``both``, backward."""
    directions = (False, True) if both else (False,)
    if topology.is_traced:
        return tuple(Line(topology.num_nodes, reverse) for reverse in directions)
    lines = [Batch(tuple(Line(part.num_nodes, reverse) for part in topology.parts)) for reverse in directions]
    return tuple(line.to(topology.device) for line in lines)
