"""Options that several commands share: the recipe, and settings as options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera_lab.training.settings import Key, keys
from chimera_ssm.errors import unknown_name

if TYPE_CHECKING:  # recipes load transformers: `chimera train --help` does without them
    from chimera_lab.recipes import Scale
    from chimera_lab.training.recipe import Recipe

SCALES = ("paper", "laptop")

#: Pairs of settings that exclude each other: giving one sets the other to 0.
_EXCLUSIVE = {"epochs": "steps", "warmup_epochs": "warmup_steps"}


@dataclass(frozen=True)
class ChosenRecipe:
    """The recipe on the command line, at its scale."""

    name: str
    scale: str
    recipe: Recipe


def add_recipe(parser: argparse.ArgumentParser, argv: Sequence[str], default_scale: Scale) -> None:
    """Add the options of the recipe that ``argv`` names, and keep the recipe as ``args.chosen``.

    The recipe is looked up here, before parsing, because its settings are options of the command.

    Args:
        parser: of the command.
        argv: the words after the command.
        default_scale: the scale to use if none is given and the recipe has it.
    """
    chosen = _find(argv, default_scale)
    parser.set_defaults(chosen=chosen)
    if chosen is not None:
        add_settings(parser, f"settings of {chosen.name}", keys(type(chosen.recipe)), chosen.recipe)


def chosen_recipe(args: argparse.Namespace) -> ChosenRecipe:
    """The recipe that `add_recipe` found, if it is the one that was parsed as RECIPE."""
    if args.recipe is None:
        raise ValueError("which recipe? for example: chimera train image/digits (chimera list shows all)")
    if args.chosen is None or args.chosen.name != args.recipe:
        from chimera_lab.recipes import all_recipes

        raise ValueError(unknown_name("recipe", args.recipe, all_recipes()))
    return args.chosen


def _find(argv: Sequence[str], default_scale: Scale) -> ChosenRecipe | None:
    """The recipe in ``argv``: the first word that names one, or else the first word, which may be misspelled."""
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--scale", nargs="?")
    found, words = scan.parse_known_args(argv)
    if all(word.startswith("-") for word in words):
        return None
    from chimera_lab.recipes import all_recipes, find_recipe

    recipes = all_recipes()
    name = next((word for word in words if word in recipes), words[0])
    if name.startswith("-"):
        return None
    scale: Scale | None = found.scale if found.scale in SCALES else None
    if scale is None and name in recipes:
        scales = recipes[name].scales
        scale = default_scale if default_scale in scales else ("paper" if "paper" in scales else "laptop")
    return ChosenRecipe(name, str(scale), find_recipe(name, scale))


def add_settings(parser: argparse.ArgumentParser, title: str, settings: Sequence[Key], values: Any) -> None:
    """Add settings as options, whose help shows the attribute of ``values`` as the default."""
    group = parser.add_argument_group(title)
    for key in settings:
        name = key.name.rstrip("_")  # from_ is --from: it is a keyword of Python
        names = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        value = getattr(values, key.name)
        default = ",".join(map(str, value)) if isinstance(value, tuple) else value
        text = f"{key.help} ({default})".replace("%", "%%")
        group.add_argument(
            *names, dest=key.name, type=_parser_of(key), default=argparse.SUPPRESS, metavar="…", help=text
        )


def given_settings(args: argparse.Namespace, settings: Any) -> dict[str, Any]:
    """The settings that were given as options; the counterpart of an exclusive setting becomes 0."""
    given = {key.name: getattr(args, key.name) for key in keys(type(settings)) if hasattr(args, key.name)}
    for pair in _EXCLUSIVE.items():
        for one, other in (pair, pair[::-1]):
            if given.get(one) and other not in given:
                given[other] = 0
    return given


def containing_run(path: Path) -> Path:
    """The folder of a run, from that folder or from one of its checkpoints."""
    return path.parent.parent if path.suffix == ".ckpt" else path


def check_parent(path: Path) -> None:
    """Refuse a file to write whose folder does not exist."""
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}; create it first")


def _parser_of(key: Key) -> Any:
    def parse(text: str) -> Any:
        try:
            return key.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
