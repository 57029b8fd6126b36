"""`chimera glue`: fine-tune a trained text model on the GLUE tasks with several seeds, and average the scores."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from chimera_lab.cli.options import SCALES, add_settings
from chimera_lab.training.glue_recipe import GlueRecipe
from chimera_lab.training.settings import keys

#: Settings of the recipes text/glue-… that can be changed, for all tasks alike.
SETTINGS = ("lr", "epochs", "batch_size", "train_limit", "length")

EXAMPLE = """chimera glue runs/text-wikitext2-20260101-120000 --data FOLDER --tasks cola sst2 mrpc
  chimera glue runs/text-c4-20260101-120000 --scale paper --after-mnli"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options: the run, the tasks, the number of seeds, and settings for all tasks."""
    settings = {key.name: key for key in keys(GlueRecipe)}
    tasks = [*get_args(settings["glue"].type)]
    cores = os.cpu_count() or 1
    parser.add_argument("run", type=Path, metavar="RUN", help="a finished run of text/…, or a folder with its model")
    parser.add_argument(
        "--data", type=settings["data"].parse, default="glue", metavar="FOLDER",
        help="folder of the official files (downloaded through `datasets`)",
    )  # fmt: skip
    parser.add_argument("--tasks", nargs="+", default=tasks, metavar="TASK", help=f"some of {', '.join(tasks)} (all)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each task (5)")
    parser.add_argument("--after-mnli", action="store_true", help="RTE, MRPC and STS-B start from the models of MNLI")
    parser.add_argument("--scale", choices=SCALES, help="scale of the recipes text/glue-… (laptop)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the runs (RUN/glue)")
    parser.add_argument("--jobs", type=int, default=cores, help=f"parallel runs, which share the cores ({cores})")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="also write the report to this file")
    defaults = argparse.Namespace(**dict.fromkeys(SETTINGS, "as in the task's recipe"))
    add_settings(parser, "settings of all tasks", [settings[name] for name in SETTINGS], defaults)
