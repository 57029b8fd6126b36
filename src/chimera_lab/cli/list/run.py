"""Print the recipes and models with their sizes, or the settings of one recipe."""

from __future__ import annotations

import argparse

import rich
import torch
from rich.table import Table

import chimera_lab.baselines  # noqa: F401  (registers the baseline presets)
from chimera_lab.recipes import Scale, all_recipes, find_recipe
from chimera_lab.training.settings import keys
from chimera_ssm.models import create_model, list_models


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    if args.recipe is not None:
        rich.print(_settings(args.recipe, args.scale))
        return
    rich.print(_recipes(args.scale))
    rich.print(_models())


def _recipes(scale: Scale | None) -> Table:
    table = Table("recipe", "scales", "", title="recipes: chimera train RECIPE")
    for name, entry in all_recipes().items():
        if scale is None or scale in entry.scales:
            table.add_row(name, ", ".join(entry.scales), entry.doc)
    return table


def _models() -> Table:
    title = 'models: chimera_ssm.create_model("…")'
    table = Table("model", "parameters", title=title, min_width=len(title))
    for name in list_models():
        with torch.device("meta"):  # no memory is allocated
            table.add_row(name, _size(sum(p.numel() for p in create_model(name).parameters())))
    return table


def _size(parameters: int) -> str:
    """A number of parameters in short: ``89.4M``, ``25.5k``."""
    for unit, one in (("M", 1_000_000), ("k", 1000)):
        if parameters >= one:
            return f"{parameters / one:.1f}{unit}"
    return str(parameters)


def _settings(name: str, scale: Scale | None) -> Table:
    recipe = find_recipe(name, scale)
    table = Table("setting", "value", "", title=f"{name}: {all_recipes()[name].doc}")
    for key in keys(type(recipe)):
        table.add_row(key.name, str(getattr(recipe, key.name)), key.help)
    return table
