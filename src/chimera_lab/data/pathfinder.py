"""Pathfinder: are two dots at the ends of one dashed path?

Every picture has two long paths and shorter distractors. The gap between two dashes of a path is smaller than the
clearance between paths. If the label is 1, the dots are at both ends of one long path, else at one end of each (Linsley
et al. 2018; Long Range Arena, Tay et al. 2021). Lengths are in units of 1/32 of the picture's side.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from numba import njit
from PIL import Image, ImageDraw
from torch import Tensor

from chimera_lab.data.cache import cached
from chimera_lab.data.progress import each
from chimera_lab.data.random import seed_of

TRAIN, TEST = 30_000, 3000
#: Dashes of a long path and of a distractor; number of distractors.
LONG, SHORT, DISTRACTORS = 14, 4, 6
SIDE = 32.0
#: Length of a dash, and distance between the centres of two dashes that follow each other.
DASH, PITCH = 2.0, 3.0
#: Half the thickness of a dash, radius of a dot, and least distance between the outlines of two paths.
HALF, RADIUS, CLEARANCE = 0.4, 1.3, 1.7
#: Standard deviation and bound of the angle between two dashes.
_BEND, _SHARPEST = 0.35, 0.8
#: Angles tried for a dash, and attempts to place a path before the picture is begun again.
_BENDS, _ATTEMPTS = 6, 200


def pathfinder(name: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pictures and labels of the training part and of the test part, see `draw_pathfinder`.

    Args:
        name: ``pathfinder:SIZE``, for pictures of SIZE × SIZE pixels.
    """
    found = re.fullmatch(r"pathfinder:(\d+)", name)
    size = int(found[1]) if found else 0
    if not 16 <= size <= 256:
        raise ValueError(
            f"Pathfinder's pictures are named pathfinder:SIZE, with a size from 16 to 256, as in pathfinder:32; "
            f"found {name!r}"
        )
    return draw_pathfinder(size, TRAIN, "train"), draw_pathfinder(size, TEST, "test")


def draw_pathfinder(size: int, count: int, part: str) -> tuple[Tensor, Tensor]:
    """Pictures ``uint8 [count, size, size]`` and labels ``[count]``, a function of the arguments alone; cached."""

    def make(path: Path) -> None:
        with each(range(count), f"drawing {count:,} pictures of pathfinder:{size}") as numbers:
            pictures = np.stack([picture(*scene(part, number), size) for number in numbers])
        with path.open("wb") as file:
            np.save(file, pictures)

    path = cached("pathfinder.npy", (1, size, count, part), make)
    return torch.from_numpy(np.load(path)), torch.arange(count) % 2


def scene(part: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the dashes ``[n, 2, x and y]`` and dots ``[2, x and y]`` of a picture; its label is ``number % 2``."""
    return _scene(np.random.default_rng(seed_of("pathfinder", part, number)), number % 2 == 1)


def picture(dashes: np.ndarray, dots: np.ndarray, size: int, oversample: int = 4) -> np.ndarray:
    """A scene in white on black, ``uint8 [size, size]``, the mean over ``oversample²`` points of each pixel."""
    scale = size * oversample / SIDE
    image = Image.new("L", (size * oversample, size * oversample))
    pen = ImageDraw.Draw(image)
    for dash in dashes * scale:
        pen.line([tuple(end) for end in dash], fill=255, width=max(1, round(2 * HALF * scale)))
    for x, y in dots * scale:
        reach = RADIUS * scale
        pen.ellipse([x - reach, y - reach, x + reach, y + reach], fill=255)
    return np.asarray(image.reduce(oversample))


@njit(cache=True)
def _scene(draw, connected):  # type: ignore[no-untyped-def]
    dashes, dots = np.empty((2 * LONG + DISTRACTORS * SHORT, 2, 2)), np.empty((4, 2))
    path = placed = 0
    while path < 2 + DISTRACTORS:
        length = LONG if path < 2 else SHORT
        for _ in range(_ATTEMPTS):
            if _place(draw, dashes, placed, length, dots, path):
                path, placed = path + 1, placed + length
                break
        else:  # no place is left
            path = placed = 0
    path = draw.integers(0, 2)
    if connected:
        return dashes, dots[2 * path : 2 * path + 2].copy()
    # The pair whose distance is nearest to that of a path's ends, so that distance does not give the label away.
    wanted, pair, best = _length(dots[2 * path] - dots[2 * path + 1]), 0, np.inf
    for k in range(4):
        error = abs(_length(dots[k // 2] - dots[2 + k % 2]) - wanted)
        if error < best:
            pair, best = k, error
    return dashes, np.stack((dots[pair // 2], dots[2 + pair % 2]))


@njit(cache=True)
def _length(vector):  # type: ignore[no-untyped-def]
    return np.hypot(vector[0], vector[1])


@njit(cache=True)
def _place(draw, dashes, start, length, dots, path):  # type: ignore[no-untyped-def]
    """Place a path as dashes ``start`` and following, a long one with room for a dot at each end; whether it fits."""
    x, y, angle = draw.uniform(0, SIDE), draw.uniform(0, SIDE), draw.uniform(0, 2 * np.pi)
    earlier, stop = 2 * min(path, 2), start + length
    if not _put(dashes, start, x, y, angle, dashes[:start], dots[:earlier]):
        return False
    for k in range(start + 1, stop):
        for _ in range(_BENDS):
            bend = min(max(_BEND * draw.normal(), -_SHARPEST), _SHARPEST)
            ahead_x = x + PITCH / 2 * (np.cos(angle) + np.cos(angle + bend))
            ahead_y = y + PITCH / 2 * (np.sin(angle) + np.sin(angle + bend))
            if _put(dashes, k, ahead_x, ahead_y, angle + bend, dashes[: k - 1], dots[:earlier]):
                x, y, angle = ahead_x, ahead_y, angle + bend
                break
        else:
            return False
    if length == LONG:
        for end, last in ((0, start), (1, stop - 1)):
            dot = dashes[last, end] + RADIUS / 2 / DASH * (dashes[last, end] - dashes[last, 1 - end])
            before, after = (start, start + 2) if end == 0 else (stop - 2, stop)
            if not _is_clear(dot, RADIUS, dashes[:before], dots[: earlier + end]):
                return False
            if not _is_clear(dot, RADIUS, dashes[after:stop], dots[:0]):
                return False
            dots[2 * path + end] = dot
    return True


@njit(cache=True)
def _put(dashes, k, x, y, angle, others, dots):  # type: ignore[no-untyped-def]
    """Put dash ``k`` at a place; whether it is clear of other dashes and of dots."""
    along_x, along_y = DASH / 2 * np.cos(angle), DASH / 2 * np.sin(angle)
    dashes[k, 0, 0], dashes[k, 0, 1] = x - along_x, y - along_y
    dashes[k, 1, 0], dashes[k, 1, 1] = x + along_x, y + along_y
    return _is_clear(dashes[k, 0], HALF, others, dots) and _is_clear(dashes[k, 1], HALF, others, dots)


@njit(cache=True)
def _is_clear(point, radius, dashes, dots):  # type: ignore[no-untyped-def]
    """Whether a disc lies within the picture and clear of dashes and dots."""
    border = radius + 0.5
    if min(point[0], point[1]) < border or max(point[0], point[1]) > SIDE - border:
        return False
    for dash in dashes:
        if _squared_distance(point, dash) < (radius + HALF + CLEARANCE) ** 2:
            return False
    for dot in dots:  # noqa: SIM110  (Numba compiles no generators)
        if _length(point - dot) < radius + RADIUS + CLEARANCE:
            return False
    return True


@njit(cache=True)
def _squared_distance(point, dash):  # type: ignore[no-untyped-def]
    """The squared distance of a point from a dash's centre line."""
    along_x, along_y = dash[1, 0] - dash[0, 0], dash[1, 1] - dash[0, 1]
    from_x, from_y = point[0] - dash[0, 0], point[1] - dash[0, 1]
    share = min(max((from_x * along_x + from_y * along_y) / DASH**2, 0.0), 1.0)
    return (from_x - share * along_x) ** 2 + (from_y - share * along_y) ** 2
