"""`chimera plan`: what a recipe takes on GPUs, and the commands that run it there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from chimera_lab.cli.options import SCALES, add_recipe
from chimera_lab.planning.hardware import GPUS

EXAMPLE = """chimera plan image/imagenet --gpus 8 --gpu a100
  chimera plan text/c4 --gpus 32 --gpu h100 --strategy fsdp --slurm c4.sbatch
  chimera plan image/digits --gpus 1 --gpu t4 --precision 32 --check"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options of the command, and the settings of the recipe that ``argv`` names."""
    parser.usage = "chimera plan RECIPE [--gpus N] [--gpu NAME] [--KEY VALUE …]"
    parser.add_argument("recipe", metavar="RECIPE", help="a name from `chimera list`")
    parser.add_argument("--scale", choices=SCALES, help="scale of the recipe (paper where it exists)")
    parser.add_argument("--gpus", type=int, default=8, metavar="N", help="number of GPUs, of all nodes together (8)")
    parser.add_argument("--gpu", default="a100", metavar="NAME", help=f"one of {', '.join(GPUS)} (a100)")
    parser.add_argument("--per-node", type=int, default=8, metavar="N", help="GPUs of a node (8)")
    parser.add_argument("--price", type=float, metavar="DOLLARS", help="price of a GPU per hour (an assumed price)")
    parser.add_argument("--strategy", choices=("ddp", "fsdp"), default="ddp", help="how GPUs share the work (ddp)")
    parser.add_argument("--precision", choices=("bf16", "16", "32"), help="bf16, or 16 where a GPU has no bf16")
    parser.add_argument("--compile", choices=("auto", "yes", "no"), default="auto", help="as for chimera train (auto)")
    parser.add_argument("--slurm", type=Path, metavar="FILE", help="write a script for sbatch to this file")
    parser.add_argument("--check", action="store_true", help="also predict and measure small steps on this machine")
    add_recipe(parser, argv, "paper")
