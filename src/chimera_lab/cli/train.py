"""`chimera train`: a recipe becomes a run."""

from __future__ import annotations

import argparse
import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from chimera_lab.recipes import Scale
    from chimera_lab.training.run import Run
    from chimera_lab.training.settings import Key

EXAMPLE = """chimera train image/digits --lr 1e-3 --seed 1
  chimera train image/digits --help            (lists the recipe's settings)
  chimera train --resume runs/image-digits-…   (after an interruption or a kill)
  chimera train text/glue-cola --data glue --from runs/text-wikitext2-…"""

_EITHER = {"epochs": "steps", "warmup_epochs": "warmup_steps"}

_FOLDER = "CHIMERA_RUN_FOLDER"  # tells further processes of a run which folder the first one made


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command, and the settings of the recipe that is named in ``argv``."""
    from chimera_lab.training.recipe import RuntimeConfig
    from chimera_lab.training.settings import keys

    parser.usage = "chimera train RECIPE [--out FOLDER] [--KEY VALUE …]\n       chimera train --resume RUN"
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="chimera list shows them")
    parser.add_argument("--scale", choices=("paper", "laptop"), help="the laptop's where it exists")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the run; runs/<recipe>-<time> if omitted")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue a run, or from one of its checkpoints")
    add_settings(parser, "how to compute", keys(RuntimeConfig), RuntimeConfig())
    recipe, name = recipe_in(argv)
    if recipe is not None:
        add_settings(parser, f"settings of {name}", keys(type(recipe)), recipe)
    elif "--resume" in argv:
        parser.add_argument("--data", metavar="…", help="of the run, if they were moved")


def add_settings(parser: argparse.ArgumentParser, title: str, keys: Sequence[Key], values: Any) -> None:
    """Settings as options, with the values they have unless given."""
    group = parser.add_argument_group(title)
    for key in keys:
        name = key.name.rstrip("_")  # from_ is --from: Python has other uses for the word
        names = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        value = getattr(values, key.name)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else value
        doc = f"{key.help} ({text})".replace("%", "%%")
        group.add_argument(*names, dest=key.name, type=_typed(key), default=argparse.SUPPRESS, metavar="…", help=doc)


def run(args: argparse.Namespace) -> None:
    """Train to the end, and say where everything is."""
    with _new(args) if args.resume is None else _resumed(args) as (run, checkpoint):
        from chimera_lab.training.fit import train
        from chimera_lab.training.lock import is_first_process
        from chimera_lab.training.stopping import Interrupted

        def begun() -> None:
            new = f"run folder: {run.folder}"
            words = new if checkpoint is None else f"continuing {run.folder} from {checkpoint.name}"
            if is_first_process():
                print(words, flush=True)

        try:
            result = train(run, checkpoint, begun)
        except Interrupted as stop:
            raise KeyboardInterrupt(str(stop) if is_first_process() else "stopped") from None
        if result is not None:
            _tell(run, result)


@contextmanager
def _new(args: argparse.Namespace) -> Generator[tuple[Run, None]]:
    """A new run in a folder of its own, from which other processes are kept out."""
    from chimera_lab.recipes import find_recipe
    from chimera_lab.training.lock import held, is_first_process
    from chimera_lab.training.recipe import RuntimeConfig
    from chimera_lab.training.run import Run, new_folder

    if args.recipe is None:
        raise ValueError("which recipe? for example: chimera train image/digits (chimera list shows all)")
    recipe = find_recipe(args.recipe, args.scale)
    recipe, machine = replace(recipe, **given(args, recipe)), replace(RuntimeConfig(), **given(args, RuntimeConfig()))
    if not is_first_process():
        yield Run(Path(args.out or os.environ[_FOLDER]), args.recipe, recipe, machine), None
        return
    if args.out is not None and not (run := Run(args.out, args.recipe, recipe, machine)).exists:
        run.check_free()  # nothing is written into a folder of something else
    with new_folder(args.recipe) if args.out is None else held(args.out) as folder:
        run = Run(folder, args.recipe, recipe, machine)
        run.check_free()
        os.environ[_FOLDER] = str(folder)
        yield run, None


@contextmanager
def _resumed(args: argparse.Namespace) -> Generator[tuple[Run, Path | None]]:
    """A run to continue, from which other processes are kept out."""
    from chimera_lab.training.fit import latest_checkpoint
    from chimera_lab.training.lock import held
    from chimera_lab.training.recipe import RuntimeConfig
    from chimera_lab.training.run import open_run
    from chimera_lab.training.settings import keys

    if args.recipe is not None or args.out is not None or args.scale is not None:
        raise ValueError("--resume continues a run with its own recipe and folder: leave RECIPE, --scale and --out out")
    is_file = args.resume.suffix == ".ckpt"
    run = open_run(args.resume.parent.parent if is_file else args.resume)
    run = replace(run, runtime=replace(run.runtime, **given(args, RuntimeConfig())))
    if getattr(args, "data", None) is not None:
        (key,) = (key for key in keys(type(run.recipe)) if key.name == "data")
        run = replace(run, recipe=replace(run.recipe, data=key.parse(args.data)))
    with held(run.folder):
        if run.result is not None:
            raise ValueError(f"{run.folder} is finished: look at it with chimera eval {run.folder}")
        yield run, args.resume if is_file else latest_checkpoint(run)


def given(args: argparse.Namespace, settings: Any) -> dict[str, Any]:
    """Those settings that were typed; where one of two was that exclude each other, the other is 0."""
    from chimera_lab.training.settings import keys

    typed = {key.name: getattr(args, key.name) for key in keys(type(settings)) if hasattr(args, key.name)}
    for pair in _EITHER.items():
        for one, other in (pair, pair[::-1]):
            if typed.get(one) and other not in typed:
                typed[other] = 0
    return typed


def recipe_in(argv: Sequence[str], preferred: Scale | None = None) -> tuple[Any, str]:
    """The recipe that is being asked for, so that its settings become options, and its name.

    Args:
        argv: what was typed.
        preferred: scale to take if none was typed and the recipe has it.
    """
    from chimera_lab.recipes import all_recipes, find_recipe

    recipes = all_recipes()
    name = next((word for word in argv if word in recipes), argv[0] if argv else "--")
    if name.startswith("-"):
        return None, name
    scale: Any = argv[argv.index("--scale") + 1] if "--scale" in argv[:-1] else preferred
    exists = name in recipes and scale in recipes[name].scales
    return find_recipe(name, scale if exists else None), name


def _typed(key: Key) -> Any:
    def parse(text: str) -> Any:
        try:
            return key.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def _tell(run: Run, result: dict[str, Any]) -> None:
    from chimera_lab.training.progress import format_metrics

    words = {"raw": "weights as trained", "ema": "averaged weights", "best": "best weights on validation data"}
    cost = f"{result['parameters']:,} parameters, {result['seconds']:.0f} s"
    print(f"{result['evaluated_on']}: {format_metrics(result['metrics'])}  ({cost})")
    print(f"model ({words[result['model']]}): {run.model}")
    print(f"curves: {run.folder / 'curves.png'}")
