"""Reading image files and idx files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.files import read_bytes, reason
from chimera_ssm.pixels import pixels_of

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")


@contextmanager
def open_image(path: str | Path) -> Generator[Any]:
    """An image file as Pillow's picture; whatever is wrong with it while it is used is one sentence that names it."""
    from PIL import Image

    try:
        with warnings.catch_warnings():  # a damaged head may ask for any size, of which Pillow warns at first
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(path)
        with image:
            yield image
    except FileNotFoundError as error:
        raise ValueError(f"there is no image {path}") from error
    except Exception as error:  # a damaged file may raise anything
        unknown = isinstance(error, Image.UnidentifiedImageError)
        why = "Pillow does not know its format" if unknown else reason(error)
        raise ValueError(f"cannot read the image {path}: {why}; remove or replace it") from error


def read_image(path: str | Path, num_channels: int) -> Tensor:
    """An image file as ``[C, H, W]``: uint8, or float from 0 to 1 if it has more than 8 bits."""
    with open_image(path) as image:
        return as_tensor(image, num_channels)


def as_tensor(image: Any, num_channels: int) -> Tensor:
    """A picture of Pillow's as ``[C, H, W]``: uint8, or float from 0 to 1 if it has more than 8 bits."""
    return torch.from_numpy(pixels_of(image, num_channels)).permute(2, 0, 1)


def read_idx(path: Path, ndim: int) -> Tensor:
    """Bytes of an idx file, gzipped or not: magic number 0 0 8 ndim, ndim sizes, data.

    Args:
        path: the file.
        ndim: the number of dimensions it should have.
    """
    content = read_bytes(path)
    start = 4 + 4 * ndim
    if len(content) < start or content[:4] != bytes([0, 0, 8, ndim]):
        found = "an empty file" if not content else f"one that begins with the bytes {content[:4].hex(' ')}"
        raise ValueError(
            f"{path} is not an idx file of bytes with {ndim} dimensions: expected {start} bytes or more, the first "
            f"00 00 08 {ndim:02x}, found {found}; copy it again"
        )
    sizes = np.frombuffer(content, ">u4", ndim, offset=4).tolist()
    if len(content) - start != math.prod(sizes) or not math.prod(sizes):
        raise ValueError(
            f"{path} should hold {' × '.join(map(str, sizes))} bytes after its head, at least one, found "
            f"{len(content) - start}; copy it again"
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(sizes).copy())
