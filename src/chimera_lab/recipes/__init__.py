"""Recipes by name. A recipe file offers ``RECIPES``, an `Entry` for each name.

A recipe file is an instance of its kind's settings with every value that matters written out.
"""

from __future__ import annotations

from importlib import import_module
from typing import Literal

from chimera_lab.recipes.entry import Entry
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import unknown

Scale = Literal["paper", "laptop"]

_FILES = (
    "image_digits",
    "image_fashion_mnist",
    "image_imagenet",
    "text_pydoc",
    "text_wikitext2",
    "text_c4",
    "text_glue",
    "graph_nci",
    "graph_rings",
    "graph_lrgb",
)


def all_recipes() -> dict[str, Entry]:
    """Every recipe, by name."""
    return {name: entry for file in _FILES for name, entry in import_module(f"{__name__}.{file}").RECIPES.items()}


def find_recipe(name: str, scale: Scale | None = None) -> Recipe:
    """A recipe by name; without a scale the laptop's, where it exists."""
    recipes = all_recipes()
    if name not in recipes:
        raise ValueError(unknown(f"recipe {name!r}", name, recipes))
    scales = recipes[name].scales
    if scale is None:
        return scales.get("laptop") or scales["paper"]
    if scale not in scales:
        raise ValueError(f"{name} exists at the scale {' and '.join(scales)} only, found --scale {scale}")
    return scales[scale]
