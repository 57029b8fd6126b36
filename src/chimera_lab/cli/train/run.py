"""Train the chosen recipe, or resume a run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from chimera_lab.cli.options import chosen_recipe, containing_run, given_settings
from chimera_lab.training import fit
from chimera_lab.training.lock import held, is_first_process
from chimera_lab.training.own_data import fit_to_data
from chimera_lab.training.progress import format_metrics
from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.run import Run, new_folder, open_run
from chimera_lab.training.settings import keys
from chimera_lab.training.stopping import Interrupted

_FOLDER_VARIABLE = "CHIMERA_RUN_FOLDER"  # tells the other processes of a run which folder the first one created


def run(args: argparse.Namespace) -> None:
    """Train to the end, and print where the results are."""
    with _new_run(args) if args.resume is None else _resumed_run(args) as (run, checkpoint):

        def announce() -> None:
            if is_first_process():
                new = f"run folder: {run.folder}"
                print(new if checkpoint is None else f"continuing {run.folder} from {checkpoint.name}", flush=True)

        try:
            result = fit.train(run, checkpoint, announce)
        except Interrupted as stop:
            raise KeyboardInterrupt(str(stop) if is_first_process() else "stopped") from None
        if result is not None:
            _print_result(run, result)


@contextmanager
def _new_run(args: argparse.Namespace) -> Generator[tuple[Run, None]]:
    """A new run in its folder, which other processes cannot use at the same time."""
    chosen = chosen_recipe(args)
    given = given_settings(args, chosen.recipe)
    recipe = replace(chosen.recipe, **given)
    if recipe.data != chosen.recipe.data:
        recipe, changes = fit_to_data(recipe, given)
        if changes and is_first_process():
            print(f"fitted to your data: {', '.join(f'{name} {value}' for name, value in changes.items())}")
    machine = replace(RuntimeConfig(), **given_settings(args, RuntimeConfig()))
    if args.out is None and _FOLDER_VARIABLE not in os.environ and _launched_together() > 1:
        raise ValueError(
            f"{_launched_together()} processes were started for one run: name the folder that they share with --out"
        )
    if not is_first_process():
        yield Run(Path(args.out or os.environ[_FOLDER_VARIABLE]), chosen.name, recipe, machine), None
        return
    if args.out is not None and not (run := Run(args.out, chosen.name, recipe, machine)).exists:
        run.check_free()  # before anything is written into a folder that belongs to something else
    with new_folder(chosen.name) if args.out is None else held(args.out) as folder:
        run = Run(folder, chosen.name, recipe, machine)
        run.check_free()
        os.environ[_FOLDER_VARIABLE] = str(folder)
        yield run, None


def _launched_together() -> int:
    """The number of processes that torchrun or srun started for this run."""
    return max(int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "SLURM_NTASKS"))


@contextmanager
def _resumed_run(args: argparse.Namespace) -> Generator[tuple[Run, Path | None]]:
    """A run to continue and the checkpoint to start from; other processes cannot use the run at the same time."""
    if args.recipe is not None or args.out is not None or args.scale is not None:
        raise ValueError("--resume continues a run with its own recipe and folder: leave RECIPE, --scale and --out out")
    run = open_run(containing_run(args.resume))
    run = replace(run, runtime=replace(run.runtime, **given_settings(args, RuntimeConfig())))
    if args.data is not None:
        (key,) = (key for key in keys(type(run.recipe)) if key.name == "data")
        run = replace(run, recipe=replace(run.recipe, data=key.parse(args.data)))
    with held(run.folder):
        if run.result is not None:
            raise ValueError(f"{run.folder} is finished: look at it with chimera eval {run.folder}")
        yield run, args.resume if args.resume.suffix == ".ckpt" else fit.latest_checkpoint(run)


def _print_result(run: Run, result: dict[str, Any]) -> None:
    weights = {"raw": "weights as trained", "ema": "averaged weights", "best": "best weights on validation data"}
    cost = f"{result['parameters']:,} parameters, {result['seconds']:.0f} s"
    print(f"{result['evaluated_on']}: {format_metrics(result['metrics'])}  ({cost})")
    print(f"model ({weights[result['model']]}): {run.model}")
    print(f"curves: {run.folder / 'curves.png'}")
    if smoothing := getattr(run.recipe, "label_smoothing", 0.0):
        other = result["evaluated_on"].split()[0]
        print(
            f"label smoothing of {smoothing:g} is part of the train loss, not of the {other} loss, which may be smaller"
        )
