"""`chimera eval`: the test metrics of a run."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chimera_lab.cli.train import add_settings, given

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLE = """chimera eval runs/image-digits-20260101-120000
  chimera eval runs/image-digits-20260101-120000 --image-size 16"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The run, and those settings of its recipe that can be changed for an evaluation."""
    from chimera_lab.training.run import open_run
    from chimera_lab.training.settings import keys

    parser.usage = "chimera eval RUN [--KEY VALUE …]"
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run, finished or not, or a checkpoint in it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the metrics there, too")
    if argv and not argv[0].startswith("-"):
        recipe = open_run(_folder(Path(argv[0]))).recipe
        changeable = [key for key in keys(type(recipe)) if key.at_eval]
        add_settings(parser, "evaluate on something else", changeable, recipe)


def run(args: argparse.Namespace) -> None:
    """Print a table of metrics."""
    import rich
    from rich.table import Table

    from chimera_lab.training.checkpoints import best_path
    from chimera_lab.training.files import write_json
    from chimera_lab.training.fit import evaluate, latest_checkpoint
    from chimera_lab.training.lock import held
    from chimera_lab.training.run import open_run
    from chimera_lab.training.stopping import Interrupted

    if args.json is not None and not args.json.parent.is_dir():
        raise ValueError(f"cannot write {args.json}: there is no folder {args.json.parent}; create it first")
    run = open_run(_folder(args.run))
    checkpoint = args.run if args.run.suffix == ".ckpt" else latest_checkpoint(run)
    if checkpoint is None:
        raise ValueError(f"{run.folder} has no checkpoint yet: continue it with chimera train --resume {run.folder}")
    writes = args.json is not None and run.folder.resolve() in args.json.resolve().parents
    with held(run.folder) if writes else nullcontext():
        try:
            recipe = replace(run.recipe, export="raw", **given(args, run.recipe))  # nothing is exported
            metrics, count, evaluated_on, step = evaluate(run, recipe, checkpoint)
        except Interrupted as stop:
            raise KeyboardInterrupt(str(stop)) from None
        if args.json is not None:
            write_json(args.json, metrics)
    state = "finished" if run.result is not None else "unfinished"
    print(f"{run.name}, {state}, after step {step}: {evaluated_on}, {count:,} samples", flush=True)
    if run.recipe.export == "best" and checkpoint != (best := best_path(run.checkpoints)):
        print(f"model/ has the weights that were best on validation data, perhaps those of an earlier step: {best}")
    table = Table()
    names = [name for name in metrics if not name.endswith("_ema")]
    for column in ("weights", *names):
        table.add_column(column)
    for words, suffix in (("as trained", ""), ("averaged", "_ema")):
        if f"{names[0]}{suffix}" in metrics:
            table.add_row(words, *(f"{metrics[name + suffix]:.4f}" for name in names))
    rich.print(table)


def _folder(path: Path) -> Path:
    return path.parent.parent if path.suffix == ".ckpt" else path
