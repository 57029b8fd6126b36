"""`chimera demo`: one layer on three topologies, beside the same network without paths and a standard model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = "chimera demo --out runs/demo"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options."""
    out = Path("runs") / "demo"
    parser.add_argument("--out", type=Path, default=out, metavar="FOLDER", help=f"folder of runs and report ({out})")
