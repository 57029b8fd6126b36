"""Predictions for image files."""

from __future__ import annotations

from typing import Any

import torch

from chimera_lab.predict.labels import class_names, columns
from chimera_lab.show.images import read_pixels
from chimera_lab.show.loading import Trained


@torch.inference_mode()
def predict(trained: Trained, paths: list[str], batch_size: int) -> list[dict[str, Any]]:
    """A row for each image, prepared as in the run's evaluation."""
    config = trained.model.config
    problem, names = config.problem_type or "single_label_classification", class_names(config)
    rows: list[dict[str, Any]] = []
    for start in range(0, len(paths), batch_size):
        batch = paths[start : start + batch_size]
        pixels = [read_pixels(trained, path) for path in batch]
        same = len({image.shape for image in pixels}) == 1
        groups = [torch.stack(pixels)] if same else [image[None] for image in pixels]
        logits = torch.cat([trained.model(pixel_values=group).logits for group in groups])
        rows += [{"input": path, **values} for path, values in zip(batch, columns(logits, problem, names), strict=True)]
    return rows
