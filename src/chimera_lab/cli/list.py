"""`chimera list`: recipes and models, or one recipe with all its settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from chimera_lab.recipes import Scale

EXAMPLE = "chimera list image/digits"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="show this one with its settings")
    parser.add_argument(
        "--scale", choices=("paper", "laptop"), help="of RECIPE, the laptop's where it exists; or of all listed"
    )


def run(args: argparse.Namespace) -> None:
    """Print one table, or two."""
    import rich

    if args.recipe is not None:
        rich.print(_settings(args.recipe, args.scale))
        return
    rich.print(_recipes(args.scale))
    rich.print(_models())


def _recipes(scale: Scale | None) -> Table:
    from rich.table import Table

    from chimera_lab.recipes import all_recipes

    table = Table("recipe", "scales", "", title="recipes: chimera train RECIPE")
    for name, entry in all_recipes().items():
        if scale is None or scale in entry.scales:
            table.add_row(name, ", ".join(entry.scales), entry.doc)
    return table


def _models() -> Table:
    from rich.table import Table

    import chimera_lab.baselines  # noqa: F401  (registers the baseline presets)
    from chimera_ssm.models import list_models

    title = 'models: chimera_ssm.create_model("…")'
    table = Table("model", title=title, min_width=len(title))
    for name in list_models():
        table.add_row(name)
    return table


def _settings(name: str, scale: Scale | None) -> Table:
    from rich.table import Table

    from chimera_lab.recipes import all_recipes, find_recipe
    from chimera_lab.training.settings import keys

    recipe = find_recipe(name, scale)
    table = Table("setting", "value", "", title=f"{name}: {all_recipes()[name].doc}")
    for key in keys(type(recipe)):
        table.add_row(key.name, str(getattr(recipe, key.name)), key.help)
    return table
