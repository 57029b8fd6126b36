"""Evaluate a run and print its metrics."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

import rich
from rich.table import Table

from chimera_lab.cli.options import check_parent, containing_run, given_settings
from chimera_lab.training.checkpoints import best_path
from chimera_lab.training.files import write_json
from chimera_lab.training.fit import evaluate, latest_checkpoint
from chimera_lab.training.lock import held
from chimera_lab.training.run import open_run
from chimera_lab.training.stopping import Interrupted


def run(args: argparse.Namespace) -> None:
    """Evaluate, write the metrics if asked to, and print them as a table."""
    if args.json is not None:
        check_parent(args.json)
    run = open_run(containing_run(args.run))
    checkpoint = args.run if args.run.suffix == ".ckpt" else latest_checkpoint(run)
    if checkpoint is None:
        raise ValueError(f"{run.folder} has no checkpoint yet: continue it with chimera train --resume {run.folder}")
    writes_into_run = args.json is not None and run.folder.resolve() in args.json.resolve().parents
    with held(run.folder) if writes_into_run else nullcontext():
        try:
            recipe = replace(run.recipe, export="raw", **given_settings(args, run.recipe))  # nothing is exported
            metrics, count, evaluated_on, step = evaluate(run, recipe, checkpoint)
        except Interrupted as stop:
            raise KeyboardInterrupt(str(stop)) from None
        if args.json is not None:
            write_json(args.json, metrics)
    state = "finished" if run.result is not None else "unfinished"
    print(f"{run.name}, {state}, after step {step}: {evaluated_on}, {count:,} samples", flush=True)
    if run.recipe.export == "best" and checkpoint != (best := best_path(run.checkpoints)):
        print(f"model/ has the weights that were best on validation data, which may be of an earlier step: {best}")
    rich.print(_table(metrics))


def _table(metrics: Mapping[str, float]) -> Table:
    """A row for the weights as trained and, where there are some, one for the averaged weights."""
    names = [name for name in metrics if not name.endswith("_ema")]
    table = Table("weights", *names)
    for weights, suffix in (("as trained", ""), ("averaged", "_ema")):
        if f"{names[0]}{suffix}" in metrics:
            table.add_row(weights, *(f"{metrics[name + suffix]:.4f}" for name in names))
    return table
