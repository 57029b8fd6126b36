"""Grids of any number of axes: images, videos, volumes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology.base import Array, Topology, read_only
from chimera_ssm.topology.cache import derived
from chimera_ssm.topology.checks import check_num_nodes


class _Lattice(Topology):
    """Nodes of a grid in row-major order; links ordered by axis, then by their lower end."""

    shape: tuple[int, ...]

    def __init__(self, key: str, shape: tuple[int, ...], directions: int, **content: Any):
        num_nodes = prod(shape)
        links = sum(num_nodes // size * (size - 1) for size in shape)
        super().__init__(key, num_nodes, directions * links, shape=shape, **content)

    def __repr__(self) -> str:
        return self.key

    @property
    def num_axes(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @derived
    def coordinates(self) -> Array:
        """Coordinates of each node, ``[T, axes]``; read-only."""
        return read_only(np.stack(np.unravel_index(np.arange(self.num_nodes), self.shape), axis=1))

    @derived
    def diameter(self) -> int:
        return sum(self.shape) - self.num_axes

    @derived
    def _edge_axis(self) -> Array:
        """Axis along which each edge runs, ``[E]``."""
        return np.argmax(self.coordinates[self._source] != self.coordinates[self._target], axis=1)

    def _traced_links(self, device: torch.device) -> list[torch.Tensor]:
        """For each axis, the lower and the upper end of each link, ``[2, links]``."""
        nodes = torch.arange(self.num_nodes, device=device).reshape(self.shape)
        ends = [(nodes.narrow(a, 0, n - 1), nodes.narrow(a, 1, n - 1)) for a, n in enumerate(self.shape)]
        return [torch.stack([low.flatten(), high.flatten()]) for low, high in ends]


class GridDAG(_Lattice):
    """A grid whose edges lead away from one corner.

    Links are ordered by axis, then by their lower end in row-major order, whatever the corner: edge ``e`` of
    all corners joins the same two nodes.

    Args:
        shape: number of nodes along each axis.
        corner: for each axis, 0 if edges lead from the first index to the last, 1 if back; zeros if omitted.
    """

    corner: tuple[int, ...]

    def __init__(self, shape: Sequence[int], corner: Sequence[int] | None = None):
        shape = _check_shape(shape)
        corner = _check_corner(shape, corner)
        super().__init__(f"GridDAG({shape}, corner={corner})", shape, directions=1, corner=corner)

    def _find_ends(self) -> tuple[Array, Array]:
        links = [_links(self.shape, axis)[:: -1 if back else 1] for axis, back in enumerate(self.corner)]
        source, target = (np.concatenate(ends) for ends in zip(*links, strict=True))
        return source, target

    def traced_tensor(self, name: str, device: torch.device) -> torch.Tensor:
        links = self._traced_links(device)
        if name == "edge_index":
            return torch.cat([x.flip(0) if back else x for x, back in zip(links, self.corner, strict=True)], dim=1)
        if name == "edge_axis":
            return torch.cat([torch.full_like(x[0], axis) for axis, x in enumerate(links)])
        if name == "in_degree":
            target = self.traced_tensor("edge_index", device)[1]
            return torch.zeros(self.num_nodes, dtype=torch.long, device=device).scatter_add(0, target, target * 0 + 1)
        return super().traced_tensor(name, device)

    @property
    def is_acyclic(self) -> bool:
        return True

    @derived
    def _levels(self) -> Array:
        last = np.array(self.shape) - 1
        return np.where(self.corner, last - self.coordinates, self.coordinates).sum(axis=1)

    @derived
    def _topological_order(self) -> Array:
        away = np.where(self.corner, np.array(self.shape) - 1 - self.coordinates, self.coordinates)
        return np.argsort(np.ravel_multi_index(tuple(away.T), self.shape))

    def flip(self) -> GridDAG:
        """The grid seen from the opposite corner, with the same edge order."""
        return GridDAG(self.shape, tuple(1 - c for c in self.corner)).to(self.device)

    def dags(self) -> tuple[GridDAG]:
        """Itself."""
        return (self,)


class Grid(_Lattice):
    """An undirected grid: first all edges toward higher indices, as in `GridDAG`, then their reverses.

    With ``reverse`` the two halves of the edge order are exchanged.
    """

    reverse: bool

    def __init__(self, shape: Sequence[int], reverse: bool = False):
        shape, reverse = _check_shape(shape), bool(reverse)
        super().__init__(f"Grid({shape}{', reverse=True' if reverse else ''})", shape, directions=2, reverse=reverse)

    def _find_ends(self) -> tuple[Array, Array]:
        links = [_links(self.shape, axis) for axis in range(self.num_axes)]
        low, high = (np.concatenate(ends) for ends in zip(*links, strict=True))
        first, second = np.concatenate([low, high]), np.concatenate([high, low])
        return (second, first) if self.reverse else (first, second)

    def traced_tensor(self, name: str, device: torch.device) -> torch.Tensor:
        if name == "edge_index":
            first = torch.cat(self._traced_links(device), dim=1)
            return torch.cat([first.flip(0), first] if self.reverse else [first, first.flip(0)], dim=1)
        return super().traced_tensor(name, device)

    @property
    def is_acyclic(self) -> bool:
        return self.num_nodes == 1

    def flip(self) -> Grid:
        """The same grid; each edge takes the place of its reverse in the edge order."""
        return Grid(self.shape, not self.reverse).to(self.device)

    def dags(self) -> tuple[GridDAG, ...]:
        """The grid seen from each of its 2**axes corners: (0, …, 0), (0, …, 1), …, (1, …, 1)."""
        return self.related(GridDAG, _dags)


def _dags(grid: Grid) -> tuple[GridDAG, ...]:
    return tuple(GridDAG(grid.shape, corner) for corner in itertools.product((0, 1), repeat=grid.num_axes))


def _links(shape: tuple[int, ...], axis: int) -> tuple[Array, Array]:
    nodes = np.arange(prod(shape)).reshape(shape)
    low = np.take(nodes, range(shape[axis] - 1), axis).ravel()
    return low, low + prod(shape[axis + 1 :])


def _check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence) or not len(shape):
        raise TopologyError(f"a grid's shape is a tuple with a size per axis, e.g. (14, 14); found {shape!r}")
    return tuple(check_num_nodes(size) for size in shape)


def _check_corner(shape: tuple[int, ...], corner: Sequence[int] | None) -> tuple[int, ...]:
    corner = (0,) * len(shape) if corner is None else corner
    if not isinstance(corner, Sequence) or len(corner) != len(shape) or any(c not in (0, 1) for c in corner):
        raise TopologyError(f"a corner is 0 or 1 for each of the {len(shape)} axes of {shape}, found {corner}")
    return tuple(int(c) for c in corner)
