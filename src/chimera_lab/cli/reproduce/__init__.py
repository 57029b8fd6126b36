"""`chimera reproduce`: a table of the paper, or another study, from training to the report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from chimera_lab.cli.options import SCALES, add_settings
from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.settings import keys

DEFAULT_OUT = Path("runs")

#: Each run uses one device unless an option says otherwise.
DEFAULT_MACHINE = RuntimeConfig(devices=1)

EXAMPLE = """chimera reproduce                           (lists tables and studies)
  chimera reproduce topology                  (the paper's table 3, at a laptop's scale)
  chimera reproduce mazes --dry-run           (how many runs, and how long they take here)
  chimera reproduce glue --data FOLDER        (with folders wikitext-2 and glue in it)
  chimera reproduce imagenet --scale paper --data IMAGENET --devices 8 --precision bf16
  chimera reproduce cost                      (time of a training step, against Transformers)
  chimera reproduce images --docs docs/results/images.md"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options."""
    parser.usage = "chimera reproduce [NAME] [--scale paper] [--data FOLDER] [--out FOLDER] …"
    parser.add_argument("name", nargs="?", metavar="NAME", help="a table or study; omit it to list them")
    parser.add_argument(
        "--section", metavar="TITLE", action="append", help="only this section of a study; can be repeated (all)"
    )
    parser.add_argument("--scale", choices=SCALES, help="scale of a table (laptop)")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data sets (where the recipes look for them)")
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_OUT, metavar="FOLDER", help=f"folder of studies and reports ({DEFAULT_OUT})"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="parallel runs, which share the cores (one per core; one on GPUs)"
    )
    parser.add_argument("--docs", type=Path, metavar="FILE", help="also write the report to this file")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        default=None,
        help="print the number of runs and their estimated duration, and stop",
    )
    add_settings(parser, "how to compute each run", keys(RuntimeConfig), DEFAULT_MACHINE)
