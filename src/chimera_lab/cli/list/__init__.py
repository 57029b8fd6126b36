"""`chimera list`: recipes and models, or one recipe with all its settings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from chimera_lab.cli.options import SCALES

EXAMPLE = "chimera list image/digits"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options."""
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="show the settings of this recipe")
    parser.add_argument(
        "--scale", choices=SCALES, help="scale of RECIPE (laptop where it exists), or only recipes of this scale"
    )
