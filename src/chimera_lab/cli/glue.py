"""`chimera glue`: a trained model on the tasks of GLUE, with several seeds, and the average."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from chimera_lab.cli.reproduce import conduct_with_bar, write_report
from chimera_lab.cli.train import add_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chimera_lab.studies.results import RowResult

#: Settings of the recipes text/glue-… that may be changed, for all tasks alike.
_SETTINGS = ("lr", "epochs", "batch_size", "train_limit", "length")

EXAMPLE = """chimera glue runs/text-wikitext2-20260101-120000 --data FOLDER --tasks cola sst2 mrpc
  chimera glue runs/text-c4-20260101-120000 --scale paper --after-mnli"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The run, the tasks, how often, and settings for all of them."""
    from chimera_lab.data.glue import TASKS
    from chimera_lab.training.glue_recipe import GlueRecipe
    from chimera_lab.training.settings import keys

    parser.add_argument("run", type=Path, metavar="RUN", help="a finished run of text/…, or a folder with its model")
    settings = {key.name: key for key in keys(GlueRecipe)}
    parser.add_argument(
        "--data", type=settings["data"].parse, default="glue", metavar="FOLDER",
        help="of the official files; through datasets if omitted",
    )  # fmt: skip
    parser.add_argument(
        "--tasks", nargs="+", default=[*TASKS], metavar="TASK", help=f"of {', '.join(TASKS)}; all if omitted"
    )
    parser.add_argument("--seeds", type=int, default=5, help="runs of each task (5)")
    parser.add_argument("--after-mnli", action="store_true", help="RTE, MRPC and STS-B start from the models of MNLI")
    parser.add_argument(
        "--scale", choices=("paper", "laptop"), help="of the recipes text/glue-…; the laptop's if omitted"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the runs; RUN/glue if omitted")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help=f"runs at a time, which share the cores ({cores})")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the report there, too")
    values = argparse.Namespace(**dict.fromkeys(_SETTINGS, "as in the task's recipe"))
    add_settings(parser, "settings of all tasks", [settings[name] for name in _SETTINGS], values)


def run(args: argparse.Namespace) -> None:
    """Fine-tune on each task, or go on with it, and write the table."""
    from chimera_lab.studies.glue import glue_studies, glue_table
    from chimera_lab.training.recipe import RuntimeConfig

    for name in ("seeds", "jobs"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} must be at least 1, found {getattr(args, name)}")
    folder = args.out or args.run / "glue"
    changes = {name: getattr(args, name) for name in _SETTINGS if hasattr(args, name)}
    studies = glue_studies(
        str(args.run.absolute()), args.tasks, args.seeds, args.scale, args.after_mnli, data=args.data, **changes
    )
    results: dict[str, dict[str, RowResult]] = {}
    for name, study in studies.items():
        results[name], then = conduct_with_bar(study, folder / name, args.jobs, RuntimeConfig(devices=1))
        results |= then
    text = f"# GLUE\n\nMeasured by `{args.command_line}`.\n\n{glue_table(results)}"
    write_report(text, folder / "report.md", args.docs)
