"""Pixels of pictures, with all the depth that a file has: 8 bits as bytes, more as real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

_WHITE_16 = 65535
#: Pillow has these formats' 16 bits in its mode of 32.
_FORMATS_16 = "PNG", "PPM"


def pixels_of(image: Any, num_channels: int) -> Array:
    """Pixels of Pillow's picture, ``[H, W, C]``: uint8, or float32 from 0 to 1 if it has more than 8 bits.

    Args:
        image: of any mode.
        num_channels: C, 1 for shades of grey, 3 for colours.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _FORMATS_16):
        grey = np.asarray(image) / np.float32(_WHITE_16)
    elif image.mode == "F":
        grey = np.asarray(image)
        if not (grey.min() >= 0 and grey.max() <= 1):
            raise ValueError(
                f"its pixels are real numbers from {grey.min():g} to {grey.max():g}, expected 0 (black) to 1 (white); "
                f"divide them by the value of white"
            )
    elif image.mode == "I":
        raise ValueError("its pixels are 32-bit integers, whose value for white is unknown; save it with 16 bits")
    else:
        pixels = np.array(image.convert("L" if num_channels == 1 else "RGB"))
        return pixels.reshape(*pixels.shape[:2], -1)
    return np.repeat(grey[..., None].astype(np.float32), num_channels, axis=2)


def scale_to_255(array: Array) -> Array:
    """An array of pixels with 255 for white: uint8 as it is, float32 if it was deeper.

    White is 255 for whole numbers, 65535 if they are uint16, and 1 for real numbers, or 255 if some are larger than 1.
    """
    if array.dtype == np.uint8 or array.size == 0:
        return array
    low, high = array.min(), array.max()
    if array.dtype == np.uint16:
        return array * np.float32(255 / _WHITE_16)
    if np.issubdtype(array.dtype, np.integer) and 0 <= low <= high <= 255:
        return array.astype(np.uint8)
    if np.issubdtype(array.dtype, np.floating) and 0 <= low <= high <= 255:
        return array.astype(np.float32) * (255 if high <= 1 else 1)
    raise ValueError(
        f"expected pixels of bytes, of uint16, or real numbers from 0 to 1 or to 255, found {array.dtype} from {low} "
        f"to {high}; scale them"
    )
