"""Labelled images: scikit-learn's digits, mazes, Pathfinder, idx files such as Fashion-MNIST's, folders, ImageNet."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.cache import cache_folder
from chimera_lab.data.download import download
from chimera_lab.data.image_files import SUFFIXES, as_tensor, open_image, read_idx, read_image
from chimera_lab.data.mazes import NAMES, mazes
from chimera_lab.data.pathfinder import pathfinder
from chimera_lab.data.samples import Samples, split

FASHION_LABELS = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
#: Images of a folder that are looked at for colours, and the beginnings of Pillow's names of modes without them.
_LOOKED_AT, _GREY = 20, ("1", "L", "I", "F")
FASHION_PACKAGE = "/usr/share/datasets/fashion-mnist"  # Debian's
FASHION_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
#: MD5 of the files, as published with them.
FASHION_FILES = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}


class Images(Samples):
    """Images with a class each; a sample is ``{"pixel_values": [C, H, W], "labels": int}``.

    Args:
        classes: the class of each image.
        read: the image of an index, ``[C, H, W]``: uint8, or float from 0 to 1 for images with more than 8 bits.
        content: what tells it from others: the pixels, or the file, which is decoded a little differently elsewhere.
    """

    def __init__(self, classes: Tensor, read: Callable[[int], Tensor], content: Callable[[int], bytes]):
        self.classes, self.read, self._content = classes, read, content

    def __len__(self) -> int:
        return len(self.classes)

    def sample(self, index: int) -> dict[str, Any]:
        return {"pixel_values": self.read(index), "labels": int(self.classes[index])}

    def content(self, index: int) -> bytes:
        return self._content(index)

    @property
    def labels(self) -> Tensor:
        return self.classes


class Transformed(Samples):
    """Images that go through a function, ``[C, H, W]``, uint8 or float, → ``float [C, S, S]``."""

    def __init__(self, images: Samples, transform: Callable[[Tensor], Tensor]):
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def sample(self, index: int) -> dict[str, Any]:
        sample = self.images.sample(index)
        return {**sample, "pixel_values": self.transform(sample["pixel_values"])}

    @property
    def labels(self) -> Tensor | None:
        return self.images.labels


class ImageData(NamedTuple):
    """A data set of images: training part, test part, and names of the classes."""

    train: Samples
    test: Samples
    names: tuple[str, ...]


def load_images(data: str, num_channels: int, names: tuple[str, ...] | None = None) -> ImageData:
    """The data set of a name, or in a folder.

    Args:
        data: ``digits``, ``mazes:SIZE``, ``pathfinder:SIZE``, ``fashion-mnist``, ``imagenet``, or a folder with idx
            files or with ``train/<class>/<image>`` and ``test/…`` or ``val/…``.
        num_channels: of the images: 3 for colours, 1 for shades of grey.
        names: of the classes as a model knows them; the data's own if omitted.
    """
    found = _load(data, num_channels)
    return found if names in (None, found.names) else _renumbered(found, names, data)


def _load(data: str, num_channels: int) -> ImageData:
    if data == "digits":
        return _digits(num_channels)
    if data.startswith("mazes:"):
        return _mazes(data, num_channels)
    if data.startswith("pathfinder:"):
        train, test = (_in_memory(*part, num_channels) for part in pathfinder(data))
        return ImageData(train, test, NAMES)
    if data == "fashion-mnist":
        return _fashion_mnist(num_channels)
    if data == "imagenet":
        return _imagenet(num_channels)
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise ValueError(
            f"there is no data set and no folder {data!r}; data is digits, mazes:12, pathfinder:32, fashion-mnist, "
            f"imagenet, or a folder with train/<class>/<image> and test/<class>/<image>, or with idx files"
        )
    if any(folder.glob("train-images*idx3-ubyte*")):
        return _idx_folder(folder, num_channels)
    return _image_folder(folder, num_channels)


def count_channels(folder: Path) -> int | None:
    """The channels that the pictures of a folder need, 1 if the first ones are grey; ``None`` if there are none."""
    if any(folder.glob("train-images*idx3-ubyte*")):
        return 1
    paths = (path for path in folder.glob("train/*/*") if path.suffix.lower() in SUFFIXES)
    modes = []
    for path in islice(paths, _LOOKED_AT):
        with open_image(path) as image:
            modes.append(image.mode)
    return (1 if all(mode.startswith(_GREY) for mode in modes) else 3) if modes else None


class _Renumbered(Samples):
    """Images whose classes have other numbers."""

    def __init__(self, images: Samples, numbers: Tensor):
        self.images, self.numbers = images, numbers

    def __len__(self) -> int:
        return len(self.images)

    def sample(self, index: int) -> dict[str, Any]:
        sample = self.images.sample(index)
        return {**sample, "labels": int(self.numbers[sample["labels"]])}

    def content(self, index: int) -> bytes:
        return self.images.content(index)

    @property
    def labels(self) -> Tensor | None:
        return None if self.images.labels is None else self.numbers[self.images.labels]


def _renumbered(images: ImageData, names: tuple[str, ...], data: str) -> ImageData:
    """The same images with the classes' numbers in ``names``."""
    known = {name: number for number, name in enumerate(names)}
    if images.names == tuple(map(str, range(len(images.names)))):  # idx files have numbers and no names
        known = {str(number): number for number in range(len(names))} | known
    strange = [name for name in images.names if name not in known]
    if strange:
        raise ValueError(f"{data} has the class {strange[0]!r}, which the model does not know; it knows {names}")
    numbers = torch.tensor([known[name] for name in images.names])
    return ImageData(_Renumbered(images.train, numbers), _Renumbered(images.test, numbers), names)


# scikit-learn's digits


def _digits(num_channels: int) -> ImageData:
    """1,797 digits of 8 × 8 pixels; a fixed stratified quarter is for testing."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    pixels = torch.from_numpy((digits.images * (255 / 16)).round().astype(np.uint8))
    whole = _in_memory(pixels, torch.from_numpy(digits.target), num_channels)
    test, train = split(whole, len(whole) // 4, "test")
    return ImageData(train, test, tuple(map(str, range(10))))


def _in_memory(pixels: Tensor, classes: Tensor, num_channels: int) -> Images:
    """Images held in memory: grey ones ``[n, H, W]``, or ``[n, channels, H, W]``."""
    return Images(
        classes.long(),
        lambda index: pixels[index].expand(num_channels, -1, -1),
        lambda index: pixels[index].numpy().tobytes(),
    )


def _mazes(name: str, num_channels: int) -> ImageData:
    if num_channels != 3:
        raise ValueError(f"mazes are pictures in colour, whose marks are red: use num_channels 3, found {num_channels}")
    train, test = (_in_memory(*part, num_channels) for part in mazes(name))
    return ImageData(train, test, NAMES)


# idx files


def _fashion_mnist(num_channels: int) -> ImageData:
    folder = Path(FASHION_PACKAGE)
    if not folder.is_dir():
        remedy = (
            "install Debian's package dataset-fashion-mnist, or name the folder of the four files with --data FOLDER"
        )
        folder = download(FASHION_ADDRESS, FASHION_FILES, cache_folder() / "fashion-mnist", remedy)
    return _idx_folder(folder, num_channels)


def _idx_folder(folder: Path, num_channels: int) -> ImageData:
    parts = [_idx_part(folder, prefix, num_channels) for prefix in ("train", "t10k")]
    count = 1 + max(int(part.classes.max()) for part in parts)
    names = FASHION_LABELS if "fashion" in folder.name and count == 10 else tuple(map(str, range(count)))
    return ImageData(*parts, names)


def _idx_part(folder: Path, prefix: str, num_channels: int) -> Images:
    pixels = read_idx(_idx_file(folder, f"{prefix}-images-idx3-ubyte"), 3)
    classes = read_idx(_idx_file(folder, f"{prefix}-labels-idx1-ubyte"), 1)
    if len(pixels) != len(classes):
        raise ValueError(
            f"{folder} has {len(pixels)} images and {len(classes)} labels of {prefix}; the numbers must be equal"
        )
    return _in_memory(pixels, classes, num_channels)


def _idx_file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise ValueError(f"{folder} has neither {name} nor {name}.gz: copy all four idx files there")


# Files


def _image_folder(folder: Path, num_channels: int) -> ImageData:
    train = folder / "train"
    test = next((folder / name for name in ("test", "val") if (folder / name).is_dir()), None)
    if not train.is_dir() or test is None:
        raise ValueError(
            f"{folder} has {'no folder train' if not train.is_dir() else 'neither a folder test nor val'}, and no idx "
            f"files; expected train/CLASS/IMAGE.png and test/CLASS/IMAGE.png{_advice(folder)}"
        )
    names = sorted(path.name for path in train.iterdir() if path.is_dir())
    if len(names) < 2:
        raise ValueError(
            f"{train} has {len(names)} folders, found {', '.join(names) or 'none'}: a classifier needs one folder for "
            "each of at least two classes"
        )
    strange = sorted(path.name for path in test.iterdir() if path.is_dir() and path.name not in names)
    if strange:
        raise ValueError(f"{test} has the class {strange[0]!r}, which {train} does not have")
    return ImageData(*(_files(part, names, num_channels) for part in (train, test)), tuple(names))


def _advice(folder: Path) -> str:
    """What to do with a folder that has a folder of images for each class."""
    classes = sorted(
        path.name for path in folder.iterdir() if path.is_dir() and path.name not in ("train", "test", "val")
    )
    if not classes:
        return ""
    found = ", ".join(classes[:3]) + ", …" * (len(classes) > 3)
    return f". It has the folders {found}: if these are classes, move them into train, and a part of each into test"


def _files(folder: Path, names: Sequence[str], num_channels: int) -> Images:
    paths: list[str] = []
    classes: list[int] = []
    for label, name in enumerate(names):
        if not (folder / name).is_dir():
            continue
        found = sorted(entry.path for entry in os.scandir(folder / name) if entry.name.lower().endswith(SUFFIXES))
        paths += found
        classes += [label] * len(found)
    if not paths:
        raise ValueError(f"there are no images in {folder}: looked for {', '.join(SUFFIXES)} in the classes' folders")
    return Images(
        torch.tensor(classes),
        lambda index: read_image(paths[index], num_channels),
        lambda index: Path(paths[index]).read_bytes(),
    )


# ImageNet


def _imagenet(num_channels: int) -> ImageData:
    """ImageNet-1k through `datasets`: from its cache, or from the hub with an account that accepted the terms."""
    from datasets import load_dataset

    try:
        parts: Any = load_dataset("ILSVRC/imagenet-1k")
    except Exception as error:  # network, permissions, missing files: of many kinds
        raise ValueError(
            f"ImageNet was looked for in datasets' cache and on the hub as ILSVRC/imagenet-1k "
            f"({type(error).__name__}); accept its terms there and log in, or name a folder with "
            f"train/<class>/<image> and val/<class>/<image> with --data FOLDER"
        ) from error
    names = tuple(parts["train"].features["label"].names)
    return ImageData(*(_of_dataset(parts[part], num_channels) for part in ("train", "validation")), names)


def _of_dataset(part: Any, num_channels: int) -> Images:
    return Images(
        torch.as_tensor(part["label"][:]),
        lambda index: as_tensor(part[index]["image"], num_channels),
        lambda index: b"",  # a name on the hub, whose classes are compared
    )
