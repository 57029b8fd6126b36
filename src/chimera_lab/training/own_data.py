"""Fit a recipe to the user's own data, where its limits, batch size or channels were chosen for other data."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any

from chimera_lab.data.image import count_channels
from chimera_lab.training.image_recipe import ImageRecipe
from chimera_lab.training.kinds import create_task
from chimera_lab.training.loaders import train_and_evaluation
from chimera_lab.training.recipe import Recipe

#: A batch is reduced to at most this fraction of the samples, so that an epoch has several steps.
_STEPS = 4


def fit_to_data(recipe: Recipe, given: Container[str]) -> tuple[Recipe, dict[str, Any]]:
    """A recipe whose settings suit the number of training samples and the colours of its images.

    Args:
        recipe: with the user's data.
        given: settings that the user has chosen, which stay.

    Returns:
        The recipe, and the settings that were changed.
    """
    changes: dict[str, Any] = {}
    if isinstance(recipe, ImageRecipe) and "num_channels" not in given:
        channels = count_channels(Path(recipe.data).expanduser())
        if channels not in (None, recipe.num_channels):
            changes["num_channels"] = channels
    whole: Recipe = replace(recipe, train_limit=None, **changes)
    count = len(train_and_evaluation(create_task(whole), whole)[0])
    limit = recipe.train_limit
    if limit is not None and limit > count and "train_limit" not in given:
        changes["train_limit"] = limit = None
    samples = count if limit is None else limit
    if recipe.batch_size > samples and "batch_size" not in given:
        changes["batch_size"] = 1 << (max(1, samples // _STEPS).bit_length() - 1)  # a power of two
    return replace(recipe, **changes), changes
