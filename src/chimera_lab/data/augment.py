"""Augmentations: of one image (with the sample's randomness), and mixtures within a batch (with the step's)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_RANDAUGMENT_CHANCE = 0.5  # each operation of RandAugment happens half the time, as in the ViT recipe


@dataclass(frozen=True)
class Augmentation:
    """From a training image to what the model sees: crop, flip, shift, RandAugment, normalise, erase.

    Args:
        size: side of the result.
        mean: of pixels in [0, 1].
        std: of pixels.
        crop_scale: least part of the image's area to crop; 1: no random crop.
        flip: whether to mirror half of the images.
        shift: largest random shift in pixels.
        magnitude: of RandAugment, out of 10; 0: none.
        magnitude_std: standard deviation of the magnitude.
        layers: operations of RandAugment.
        erase: probability of erasing a rectangle.
    """

    size: int
    mean: float
    std: float
    crop_scale: float = 1.0
    flip: bool = False
    shift: int = 0
    magnitude: float = 0.0
    magnitude_std: float = 0.0
    layers: int = 2
    erase: float = 0.0

    def __call__(self, image: Tensor) -> Tensor:
        """``[C, H, W]``, uint8 or float from 0 to 1, → ``float32 [C, size, size]``."""
        if self.crop_scale < 1:
            image = random_crop(image, self.crop_scale)
        image = resize(to_float(image), self.size, self.size)
        if self.flip and torch.rand(()) < 0.5:
            image = image.flip(-1)
        if self.shift:
            image = random_shift(image, self.shift)
        if self.magnitude:
            image = rand_augment(image, self.magnitude, self.magnitude_std, self.layers)
        image = (image - self.mean) / self.std
        return random_erasing(image, self.erase) if self.erase else image


@dataclass(frozen=True)
class EvalTransform:
    """From an image to what the model sees in evaluation: resize, crop the centre, normalise.

    Args:
        size: side of the result.
        mean: of pixels in [0, 1].
        std: of pixels.
        crop: the part of the shorter side that is kept; 1: the whole image, squeezed to a square.
    """

    size: int
    mean: float
    std: float
    crop: float = 1.0

    @property
    def resized(self) -> int:
        """The shorter side before the crop."""
        return round(self.size / self.crop)

    def __call__(self, image: Tensor) -> Tensor:
        """``[C, H, W]``, uint8 or float from 0 to 1, → ``float32 [C, size, size]``."""
        image = to_float(image)
        if self.crop == 1:
            image = resize(image, self.size, self.size)
        else:
            shorter = min(image.shape[-2:])
            image = resize(image, *(self.resized * side // shorter for side in image.shape[-2:]))
            top, left = ((side - self.size) // 2 for side in image.shape[-2:])
            image = image[..., top : top + self.size, left : left + self.size]
        return (image - self.mean) / self.std


def to_float(image: Tensor) -> Tensor:
    """Bytes to [0, 1], where real numbers are already."""
    return image if image.is_floating_point() else image.float() / 255


def resize(image: Tensor, height: int, width: int) -> Tensor:
    """``[C, H, W]`` in [0, 1] to another size, by smooth interpolation."""
    if image.shape[-2:] == (height, width):
        return image
    image = F.interpolate(image.unsqueeze(0), (height, width), mode="bicubic", antialias=True, align_corners=False)
    return image.squeeze(0).clamp(0, 1)


def random_crop(image: Tensor, least: float) -> Tensor:
    """A rectangle of ``least`` to all of the area, sides from 3:4 to 4:3; the whole where none fits in ten tries."""
    height, width = image.shape[-2:]
    for _ in range(10):
        area = height * width * float(torch.empty(()).uniform_(least, 1))
        aspect = math.exp(float(torch.empty(()).uniform_(math.log(3 / 4), math.log(4 / 3))))
        h, w = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 0 < h <= height and 0 < w <= width:
            top, left = int(torch.randint(height - h + 1, ())), int(torch.randint(width - w + 1, ()))
            return image[..., top : top + h, left : left + w]
    return image


def random_shift(image: Tensor, most: int) -> Tensor:
    """Shifted by up to ``most`` pixels along each axis; zeros come in."""
    height, width = image.shape[-2:]
    top, left = torch.randint(2 * most + 1, (2,)).tolist()
    return F.pad(image, [most] * 4)[..., top : top + height, left : left + width]


def rand_augment(image: Tensor, magnitude: float, std: float, layers: int) -> Tensor:
    """RandAugment of one image, by kornia, whose own batches would all get the same operations.

    Args:
        image: ``[C, H, W]`` in [0, 1].
        magnitude: out of 10.
        std: standard deviation of the magnitude.
        layers: operations in a row.
    """
    from kornia.augmentation.auto import RandAugment

    for _ in range(layers):
        if torch.rand(()) < _RANDAUGMENT_CHANCE:
            strength: Any = 3 * (magnitude + std * float(torch.randn(())))  # kornia's scale is 0 to 30, both excluded
            strength = min(max(strength, 0.1), 29.9)
            grey = image.shape[0] == 1
            image = RandAugment(n=1, m=strength)(image.expand(3, -1, -1).unsqueeze(0)).squeeze(0)
            image = image[:1] if grey else image
    return image.clamp(0, 1)


def random_erasing(image: Tensor, probability: float) -> Tensor:
    """With a probability, noise in a rectangle of 2 % to a third of a normalised image."""
    from kornia.augmentation import RandomErasing

    if torch.rand(()) >= probability:
        return image
    here = RandomErasing(p=1.0, scale=(0.02, 1 / 3), ratio=(0.3, 3.3), value=0.0)
    kept = here(torch.ones(1, 1, *image.shape[-2:])).squeeze(0)
    return image * kept + torch.randn_like(image) * (1 - kept)


def mix_batch(images: Tensor, targets: Tensor, mixup: float, cutmix: float) -> tuple[Tensor, Tensor]:
    """MixUp or CutMix of a batch with itself in reverse order, and of its targets in the same proportion.

    The part λ of the image itself is drawn from Beta(α, α), once for the batch. Where both are asked for, one is
    chosen at random.

    Args:
        images: ``[B, C, H, W]``.
        targets: probabilities ``[B, classes]``.
        mixup: α of MixUp; 0: none.
        cutmix: α of CutMix; 0: none.
    """
    if not mixup and not cutmix:
        return images, targets
    use_cutmix = bool(cutmix) and (not mixup or bool(torch.rand(()) < 0.5))
    alpha = torch.tensor(cutmix if use_cutmix else mixup)
    part = float(torch.distributions.Beta(alpha, alpha).sample())
    others = images.flip(0)
    if use_cutmix:
        rows, columns, part = _cut(images.shape[-2], images.shape[-1], part)
        images = images.clone()
        images[..., rows, columns] = others[..., rows, columns]
    else:
        images = torch.lerp(others, images, part)
    return images, torch.lerp(targets.flip(0), targets, part)


def _cut(height: int, width: int, part: float) -> tuple[slice, slice, float]:
    """A rectangle of about 1 − part of the area around a random centre, and the part that is really left."""
    side = math.sqrt(1 - part)

    def along(size: int) -> slice:
        centre, half = int(torch.randint(size, ())), size * side / 2
        return slice(max(0, round(centre - half)), min(size, round(centre + half)))

    rows, columns = along(height), along(width)
    return rows, columns, 1 - (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
