"""Scenes: digits on photographs, as graphs of superpixels. Which digit does each region belong to?

The digits and the two photographs come with scikit-learn. Regions are smaller than digits, so that the class of a
region follows from its surroundings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chimera_lab.data.graph_store import GraphStore, cached_store
from chimera_lab.data.progress import each
from chimera_lab.data.random import seed_of
from chimera_lab.data.superpixels import superpixel_graph

Array = np.ndarray

TRAIN, TEST = 1500, 300
#: Height and width of a scene, side of a digit, and least and largest number of attempts to place one.
HEIGHT, WIDTH, DIGIT = 96, 128, 32
FEWEST, MOST = 3, 6
#: Ink of a digit's pixels, from 0 to 1, above which they are drawn.
INK = 0.35
BACKGROUND = 0
_TEST_DIGITS = 450


def scenes(segments: int) -> tuple[GraphStore, GraphStore]:
    """Graphs of training and test scenes; a node's class is 1 + its digit, or 0 for the background.

    Test scenes have other digits and other parts of the photographs than training scenes.

    Args:
        segments: approximate number of regions of a scene.
    """
    train, test = (_store(part, count, segments) for part, count in (("train", TRAIN), ("test", TEST)))
    return train, test


def _store(part: str, count: int, segments: int) -> GraphStore:
    def make() -> GraphStore:
        material = Material.of(part)
        with each(range(count), f"drawing and segmenting {count:,} scenes") as numbers:
            return GraphStore.of(superpixel_graph(*scene(material, number), segments) for number in numbers)

    return cached_store(f"scenes-{part}", repr((1, count, segments)).encode(), make)


class Material(NamedTuple):
    """What scenes are made of: photographs ``[H, W, 3]``, and digits ``[n, 8, 8]`` with their classes ``[n]``."""

    part: str
    photographs: tuple[Array, ...]
    digits: Array
    classes: Array

    @classmethod
    def of(cls, part: str) -> Material:
        """The first digits and the left three quarters of the photographs for training, the rest for testing."""
        from sklearn.datasets import load_digits, load_sample_image

        digits, train = load_digits(), part == "train"
        whole = [load_sample_image(name) / 255 for name in ("china.jpg", "flower.jpg")]
        edges = [photograph.shape[1] * 3 // 4 for photograph in whole]
        photographs = tuple(x[:, :edge] if train else x[:, edge:] for x, edge in zip(whole, edges, strict=True))
        kept = slice(None, -_TEST_DIGITS) if train else slice(-_TEST_DIGITS, None)
        return cls(part, photographs, digits.images[kept] / 16, digits.target[kept])


def scene(material: Material, number: int) -> tuple[Array, Array]:
    """Pixels ``[HEIGHT, WIDTH, 3]`` from 0 to 1, and the class of each pixel, a function of the arguments alone."""
    draw = np.random.default_rng(seed_of("scene", material.part, number))
    pixels, mask = _cut(draw, material.photographs[draw.integers(2)]), np.full((HEIGHT, WIDTH), BACKGROUND)
    taken = np.zeros((HEIGHT, WIDTH), bool)
    for _ in range(draw.integers(FEWEST, MOST + 1)):
        top, left = draw.integers(HEIGHT - DIGIT + 1), draw.integers(WIDTH - DIGIT + 1)
        place = np.s_[top : top + DIGIT, left : left + DIGIT]
        chosen, colour = draw.integers(len(material.classes)), draw.uniform(size=3)
        if taken[place].any():  # digits do not overlap
            continue
        inked = _enlarged(material.digits[chosen]) > INK
        pixels[place][inked] = colour + draw.normal(scale=0.03, size=(inked.sum(), 3))
        mask[place][inked] = 1 + material.classes[chosen]
        taken[place] = True
    return pixels.clip(0, 1), mask


def _cut(draw: np.random.Generator, photograph: Array) -> Array:
    """A random part of a photograph."""
    top, left = (draw.integers(side - cut + 1) for side, cut in zip(photograph.shape, (HEIGHT, WIDTH), strict=False))
    return photograph[top : top + HEIGHT, left : left + WIDTH].copy()


def _enlarged(image: Array) -> Array:
    """``[8, 8]`` → ``[DIGIT, DIGIT]``, with linear interpolation."""
    from scipy.ndimage import zoom

    return zoom(image, DIGIT / len(image), order=1)
