"""Recipes by name. Each module defines ``RECIPES``, which maps names to an `Entry`.

A recipe is an instance of the recipe class of its kind, with every relevant value written out.
"""

from __future__ import annotations

from typing import Literal

from chimera_lab.recipes import (
    graph_generated,
    graph_lrgb,
    graph_nci,
    graph_rings,
    image_digits,
    image_fashion_mnist,
    image_imagenet,
    image_paths,
    text_c4,
    text_causal,
    text_glue,
    text_pydoc,
    text_sequences,
    text_wikitext2,
)
from chimera_lab.recipes.entry import Entry
from chimera_lab.training.recipe import Recipe
from chimera_ssm.errors import unknown_name

Scale = Literal["paper", "laptop"]

_MODULES = (
    image_digits,
    image_fashion_mnist,
    image_imagenet,
    image_paths,
    text_pydoc,
    text_sequences,
    text_wikitext2,
    text_c4,
    text_causal,
    text_glue,
    graph_nci,
    graph_rings,
    graph_generated,
    graph_lrgb,
)


def all_recipes() -> dict[str, Entry]:
    """Every recipe, by name."""
    return {name: entry for module in _MODULES for name, entry in module.RECIPES.items()}


def find_recipe(name: str, scale: Scale | None = None) -> Recipe:
    """A recipe by name; without a scale, the laptop's if it exists."""
    recipes = all_recipes()
    if name not in recipes:
        raise ValueError(unknown_name("recipe", name, recipes))
    scales = recipes[name].scales
    if scale is None:
        return scales.get("laptop") or scales["paper"]
    if scale not in scales:
        raise ValueError(f"{name} exists at the scale {' and '.join(scales)} only, found --scale {scale}")
    return scales[scale]
