"""Images as graphs of superpixels, with the features of the benchmark's PascalVOC-SP and COCO-SP.

A node is a region of similar pixels, found by scikit-image's SLIC, an edge a boundary between two of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chimera_lab.data.cache import content_digest
from chimera_lab.data.graph_store import GraphSample, GraphStore, cached_store
from chimera_lab.data.image_files import SUFFIXES, open_image, read_image
from chimera_lab.data.progress import each

Array = np.ndarray

#: Pixels of a mask that belong to no class.
UNKNOWN = 255
#: How much nearness counts beside colour; the benchmark's value.
COMPACTNESS = 30


def superpixels(folder: Path, segments: int) -> tuple[GraphStore, GraphStore]:
    """Graphs to learn from and to be judged on, of ``train/`` and of ``test/`` or ``val/``.

    Each holds a folder of images for each class, and graphs have labels; or the folders ``images`` and ``masks``, a png
    of classes for each image under the same name, and nodes have labels: the class most of their pixels have.

    Args:
        folder: of both.
        segments: superpixels of an image, about.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; name one with train/ and test/ as superpixels:FOLDER")
    test = next((name for name in ("test", "val") if (folder / name).is_dir()), None)
    if not (folder / "train").is_dir() or test is None:
        raise ValueError(
            f"{folder} should have train/ and test/ or val/, each with images/ and masks/, or with classes"
        )
    masked = (folder / "train" / "masks").is_dir()
    classes = [] if masked else sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    train, judged = (_part(folder, name, masked, classes, segments) for name in ("train", test))
    return train, judged


def _part(folder: Path, name: str, masked: bool, classes: list[str], segments: int) -> GraphStore:
    part = folder / name
    pairs = _with_masks(part) if masked else _with_classes(part, classes)
    if not pairs:
        raise ValueError(f"there are no images in {part}: looked for {', '.join(SUFFIXES)}")

    def make() -> GraphStore:
        with each(pairs, f"segmenting {len(pairs):,} images of {part}") as images:
            return GraphStore.of(_graph(image, label, segments) for image, label in images)

    source = [[content_digest(item) if isinstance(item, Path) else item for item in pair] for pair in pairs]
    return cached_store(f"superpixels-{name}", repr((segments, COMPACTNESS, classes, source)).encode(), make)


def _with_classes(part: Path, classes: list[str]) -> list[tuple[Path, int]]:
    strange = sorted(path.name for path in part.iterdir() if path.is_dir() and path.name not in classes)
    if strange:
        raise ValueError(f"{part} has the class {strange[0]!r}, which the training part does not have")
    return [(path, label) for label, name in enumerate(classes) for path in _images(part / name)]


def _with_masks(part: Path) -> list[tuple[Path, Path]]:
    pairs = [(path, part / "masks" / f"{path.stem}.png") for path in _images(part / "images")]
    for image, mask in pairs:
        if not mask.is_file():
            raise ValueError(f"{image} has no mask: {mask} is not there")
    return pairs


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.name.lower().endswith(SUFFIXES)) if folder.is_dir() else []


def _graph(image: Path, label: Path | int, segments: int) -> GraphSample:
    pixels = read_image(image, 3).permute(1, 2, 0).numpy()
    pixels = pixels / 255 if pixels.dtype == np.uint8 else pixels.astype(np.float64)
    return superpixel_graph(pixels, label if isinstance(label, int) else _read_mask(label, pixels.shape[:2]), segments)


def superpixel_graph(pixels: Array, label: Array | int, segments: int) -> GraphSample:
    """The graph of an image ``[H, W, 3]``, from 0 to 1, with its class, or the class of each pixel ``[H, W]``."""
    regions = slic(pixels, segments)
    y = np.array([label]) if isinstance(label, int) else region_classes(label, regions)
    return GraphSample(*region_graph(pixels, regions), y)


def _read_mask(path: Path, shape: tuple[int, ...]) -> Array:
    with open_image(path) as image:
        mask = np.array(image)  # of a palette the numbers, not the colours
    if mask.shape != shape or not np.issubdtype(mask.dtype, np.integer):
        raise ValueError(f"{path} should hold a class for each of {shape} pixels, found {mask.dtype} {mask.shape}")
    if mask.min() < 0 or mask.max() >= 1 << 16:
        raise ValueError(f"{path} should hold classes from 0 to 65,535, found {mask.min():,} to {mask.max():,}")
    return mask.astype(np.int64)


# Regions


def slic(pixels: Array, segments: int) -> Array:
    """Regions of similar pixels that are near each other, ``[H, W]``: numbers from 0 on, each region connected.

    Args:
        pixels: ``[H, W, 3]`` from 0 to 1.
        segments: regions, about.
    """
    from skimage import segmentation

    return segmentation.slic(pixels, segments, compactness=COMPACTNESS, start_label=0)


def _neighbours(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Pairs of pixels side by side, as numbers of pixels."""
    pixel = np.arange(np.prod(shape)).reshape(shape)
    first = np.concatenate([pixel[:, :-1].ravel(), pixel[:-1].ravel()])
    second = np.concatenate([pixel[:, 1:].ravel(), pixel[1:].ravel()])
    return first, second


# Features


def region_graph(pixels: Array, regions: Array) -> tuple[Array, Array, Array]:
    """Nodes ``[T, 4 C + 2]``, edges ``[2, E]``, both ways, and their features ``[E, 2]``.

    Of a node: mean, deviation, least and largest value of each colour, and its middle from 0 to 1. Of an edge: mean
    difference of colour across the boundary, and the boundary's length over the square root of a region's mean size.
    """
    number, colours = regions.ravel(), pixels.reshape(regions.size, -1)
    count = int(number.max()) + 1
    mean = _means(colours, number, count)
    deviation = np.sqrt(_means((colours - mean[number]) ** 2, number, count))
    low, high = np.full_like(mean, np.inf), np.full_like(mean, -np.inf)
    np.minimum.at(low, number, colours)
    np.maximum.at(high, number, colours)
    place = np.stack(np.unravel_index(np.arange(regions.size), regions.shape), axis=1) / regions.shape
    x = np.concatenate([mean, deviation, low, high, _means(place, number, count)], axis=1)

    first, second = _neighbours(regions.shape)
    across = number[first] != number[second]
    first, second = first[across], second[across]
    ends = np.sort(np.stack([number[first], number[second]]), axis=0)
    pair, which, length = np.unique(ends[0] * count + ends[1], return_inverse=True, return_counts=True)
    change = np.abs(colours[first] - colours[second]).mean(1)
    step = np.bincount(which, change, pair.size) / length
    edge_attr = np.stack([step, length / np.sqrt(regions.size / count)], axis=1)
    edges = np.stack([pair // count, pair % count])
    both = np.concatenate([edges, edges[::-1]], axis=1)
    return x.astype(np.float32), both, np.concatenate([edge_attr] * 2).astype(np.float32)


def region_classes(mask: Array, regions: Array) -> Array:
    """The class that most pixels of a region have, −1 if that is unknown, ``[T]``; the least of equal ones."""
    known = np.where(mask == UNKNOWN, 0, mask + 1).ravel()
    votes = np.zeros((int(regions.max()) + 1, int(known.max()) + 1), np.int64)
    np.add.at(votes, (regions.ravel(), known), 1)
    return votes.argmax(1) - 1


def _means(values: Array, number: Array, count: int) -> Array:
    """Mean of the rows of ``values`` with each number, ``[count, …]``; zero where there is none."""
    size = np.maximum(np.bincount(number, minlength=count), 1)
    return np.stack([np.bincount(number, column, count) for column in values.T], axis=1) / size[:, None]
