"""The image processor: from images to the input of image models."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedConfig
from transformers.image_processing_backends import PilBackend
from transformers.image_utils import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD, PILImageResampling
from transformers.processing_utils import ImagesKwargs

from chimera_ssm.pixels import pixels_of, scale_to_255


class ChimeraImageKwargs(ImagesKwargs, total=False):
    """Arguments of `ChimeraImageProcessor` besides those of all image processors."""

    num_channels: int


class ChimeraImageProcessor(PilBackend):
    """Resizes, scales to [0, 1] and normalizes images; ``num_channels`` is 3 for colour, 1 for greyscale.

    White is 255 in uint8 arrays, 65535 in uint16 arrays, and 1 in floating point arrays (255 if some value exceeds 1).
    The model accepts any size and aspect ratio: ``do_resize=False`` keeps the size of an image,
    ``size={"shortest_edge": 256}`` its aspect ratio.
    """

    valid_kwargs = ChimeraImageKwargs
    resample = PILImageResampling.BICUBIC
    image_mean = IMAGENET_DEFAULT_MEAN
    image_std = IMAGENET_DEFAULT_STD
    size = {"height": 224, "width": 224}  # noqa: RUF012
    do_resize = True
    do_rescale = True
    do_normalize = True
    num_channels = 3

    @classmethod
    def for_model(cls, config: PreTrainedConfig, **kwargs: Any) -> ChimeraImageProcessor:
        """The processor with the image size and channels of a model's configuration.

        Args:
            config: of a Chimera image model or of a ViT.
            kwargs: other arguments of the processor, such as ``image_mean`` and ``image_std``, a number per channel:
                by default ImageNet's for three channels, else one half.
        """
        side, channels = config.image_size, config.num_channels
        if channels != 3:
            kwargs = {"image_mean": [0.5] * channels, "image_std": [0.5] * channels, **kwargs}
        return cls(size={"height": side, "width": side}, num_channels=channels, **kwargs)

    def process_image(  # ty: ignore[incompatible-method-override]
        self, image: Any, **kwargs: Any
    ) -> np.ndarray:
        """An image as an array ``[num_channels, height, width]``; white is 255, unless ``do_rescale`` is False."""
        channels = kwargs.get("num_channels", self.num_channels)
        if hasattr(image, "convert"):  # a Pillow image, which knows its mode
            return scale_to_255(pixels_of(image, channels).transpose(2, 0, 1))
        array = super().process_image(image, **kwargs)
        if array.shape[0] != channels:
            raise ValueError(
                f"expected an image with {channels} channels, found an array of shape {list(array.shape)}; "
                "images of Pillow are converted automatically"
            )
        return scale_to_255(array) if kwargs.get("do_rescale", self.do_rescale) else array

    def resize(
        self, image: np.ndarray, size: Any, resample: Any = None, reducing_gap: int | None = None, **kwargs: Any
    ) -> np.ndarray:
        """Resize an array ``[C, height, width]``; arrays other than uint8 keep their precision."""
        if image.dtype == np.uint8:
            return super().resize(image, size, resample, reducing_gap, **kwargs)
        from PIL import Image

        height, width = super().resize(np.zeros(image.shape, np.uint8), size, resample).shape[1:]
        channels = [Image.fromarray(channel.astype(np.float32)) for channel in image]
        resized = np.stack([np.asarray(channel.resize((width, height), resample)) for channel in channels])
        return resized.clip(image.min(), image.max())
