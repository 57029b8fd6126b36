"""`chimera train`: train a recipe, or resume a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from chimera_lab.cli.options import SCALES, add_recipe, add_settings
from chimera_lab.training.recipe import RuntimeConfig
from chimera_lab.training.settings import keys

EXAMPLE = """chimera train image/digits --lr 1e-3 --seed 1
  chimera train image/digits --help            (lists the recipe's settings)
  chimera train --resume runs/image-digits-…   (after an interruption or a kill)
  chimera train text/glue-cola --data glue --from runs/text-wikitext2-…"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options of the command, and the settings of the recipe that ``argv`` names."""
    parser.usage = "chimera train RECIPE [--out FOLDER] [--KEY VALUE …]\n       chimera train --resume RUN"
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="a name from `chimera list`")
    parser.add_argument("--scale", choices=SCALES, help="scale of the recipe (laptop where it exists)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the run (runs/<recipe>-<time>)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="resume a run, or start from one of its checkpoints")
    add_settings(parser, "how to compute", keys(RuntimeConfig), RuntimeConfig())
    add_recipe(parser, argv, "laptop")
    if parser.get_default("chosen") is None:
        if any(word.partition("=")[0] == "--resume" for word in argv):
            parser.set_defaults(
                remedy=": the settings of a run are fixed, and --resume continues it with them; for others start a "
                "new run, chimera train RECIPE --KEY VALUE"
            )
        parser.add_argument(
            "--data", metavar="…", help="with --resume: where the run's data are now, if they were moved"
        )
