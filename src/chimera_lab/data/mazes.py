"""Mazes: are two marked cells connected?"""

from __future__ import annotations

import re

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.random import generator

#: Probability of a wall: a little below 0.41, the threshold above which large mazes fall apart into small regions.
WALLS = 0.38
#: Distance of the marked cells at least, in rows plus columns.
APART = 5
TRAIN, TEST = 20_000, 2000
NAMES = ("separated", "connected")
#: Pairs of cells that are tried in each maze.
_PAIRS = 64


def mazes(name: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pictures and labels of the training part and of the test part.

    A cell is a pixel: walls are black, free cells white, the two marked cells red. The label is 1 if a path over
    free cells, from each to one of its four neighbours, connects the marked cells. Labels are equally frequent.

    Args:
        name: ``mazes:SIZE``, for mazes of SIZE × SIZE cells.
    """
    found = re.fullmatch(r"mazes:(\d+)", name)
    size = int(found[1]) if found else 0
    if not 4 <= size <= 128:
        raise ValueError(f"mazes are named mazes:SIZE, with a size from 4 to 128, as in mazes:12; found {name!r}")
    return draw_mazes(size, TRAIN, "train"), draw_mazes(size, TEST, "test")


def draw_mazes(size: int, count: int, part: str) -> tuple[Tensor, Tensor]:
    """Pictures ``uint8 [count, 3, size, size]`` and labels ``[count]``, a function of the arguments alone."""
    draw = generator("mazes", size, part)
    pictures, labels = torch.empty(count, 3, size, size, dtype=torch.uint8), torch.arange(count) % 2
    missing = torch.arange(count)
    while len(missing):
        free = torch.rand(len(missing), size, size, generator=draw) >= WALLS
        cells, suitable = _marked_cells(free, labels[missing], draw)
        place = missing[suitable]
        pictures[place] = (255 * free[suitable]).to(torch.uint8).unsqueeze(1)
        for cell in cells[suitable].unbind(1):
            pictures[place, :, cell[:, 0], cell[:, 1]] = torch.tensor([255, 0, 0], dtype=torch.uint8)
        missing = missing[~suitable]
    return pictures, labels


def _marked_cells(free: Tensor, labels: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """In each maze the first of some random pairs of cells that fits its label, and whether there is one.

    Shapes: ``free [n, size, size]``, ``labels [n]`` → cells ``[n, 2 cells, row and column]``, ``[n]``.
    """
    count, size, _ = free.shape
    pairs = torch.randint(size, (count, _PAIRS, 2, 2), generator=draw)
    maze = torch.arange(count)[:, None, None]
    regions = connected_regions(free)[maze, pairs[..., 0], pairs[..., 1]]
    apart = (pairs[:, :, 0] - pairs[:, :, 1]).abs().sum(-1) >= APART
    same = regions[..., 0] == regions[..., 1]
    fits = apart & (regions > 0).all(-1) & (same == labels.bool()[:, None])
    return pairs[torch.arange(count), fits.int().argmax(1)], fits.any(1)


def connected_regions(free: Tensor) -> Tensor:
    """The number of the region of each free cell, 0 at walls; ``[n, height, width]``."""
    from scipy.ndimage import label

    neighbours = np.zeros((3, 3, 3), dtype=int)
    neighbours[1] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]  # within a maze, not from one maze to the next
    regions, _ = label(free.numpy(), neighbours)
    return torch.from_numpy(regions.astype(np.int64))
