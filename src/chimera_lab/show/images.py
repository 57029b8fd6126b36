"""An image as a scene, whose nodes are the patches."""

from __future__ import annotations

import io
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.image_files import open_image
from chimera_lab.show.loading import Trained
from chimera_lab.show.view import Scene
from chimera_lab.training.files import reading


def scene(trained: Trained, given: str | None) -> tuple[Scene, dict[str, Any]]:
    """The scene and the model inputs of an image file or of a test image, given by number."""
    sample = trained.sample(given, "an image file")
    pixels = read_pixels(trained, str(given)) if sample is None else sample["pixel_values"]
    config, patch = trained.model.config, trained.model.config.patch_size
    rows, columns = (-(-side // patch) for side in pixels.shape[1:])
    with torch.no_grad():
        probabilities = trained.model(pixel_values=pixels[None]).logits[0].softmax(0)
    best = int(probabilities.argmax())
    drawing = {"rows": rows, "columns": columns, "source": _data_uri(pixels, (rows * patch, columns * patch))}
    title = (
        f"test image {given or 0}" if sample is not None else Path(str(given)).name.encode(errors="replace").decode()
    )
    return Scene(
        "image",
        title,
        "pixel" if patch == 1 else "patch",
        [f"{row},{column}" for row in range(rows) for column in range(columns)],
        drawing,
        focus=rows // 2 * columns + columns // 2,
        prediction=f"classified as {config.id2label[best]} ({float(probabilities[best]):.0%})",
    ), {"pixel_values": pixels[None]}


def read_pixels(trained: Trained, path: str) -> Tensor:
    """The pixels of a file after the model's image processor."""
    from transformers import AutoImageProcessor

    with reading(trained.folder, "save its image processor again"):
        processor: Any = AutoImageProcessor.from_pretrained(trained.folder)
    with open_image(path) as picture:
        return processor(picture, return_tensors="pt")["pixel_values"][0]


def _data_uri(pixels: Tensor, size: tuple[int, int]) -> str:
    """A PNG of normalised pixels, padded to whole patches and scaled to the range from black to white."""
    from PIL import Image

    low, high = float(pixels.min()), float(pixels.max())
    grey = ((pixels - low) * (255 / max(high - low, 1e-6))).round().byte().permute(1, 2, 0).numpy()
    whole = np.zeros((*size, grey.shape[2]), np.uint8)
    whole[: grey.shape[0], : grey.shape[1]] = grey
    file = io.BytesIO()
    Image.fromarray(whole.squeeze(2) if whole.shape[2] == 1 else whole).save(file, "PNG")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
