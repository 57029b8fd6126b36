"""`chimera eval`: the test metrics of a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from chimera_lab.cli.options import add_settings, containing_run
from chimera_lab.training.settings import keys

EXAMPLE = """chimera eval runs/image-digits-20260101-120000
  chimera eval runs/image-digits-20260101-120000 --image-size 16"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options: the run, and the settings of its recipe that an evaluation may change."""
    parser.usage = "chimera eval RUN [--KEY VALUE …]"
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run, finished or not, or a checkpoint in it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the metrics to this file")
    if argv and not argv[0].startswith("-"):
        from chimera_lab.training.run import open_run  # loads the recipes, which --help does without

        recipe = open_run(containing_run(Path(argv[0]))).recipe
        changeable = [key for key in keys(type(recipe)) if key.at_eval]
        add_settings(parser, "evaluate with other settings", changeable, recipe)
