"""`chimera show`: the influence between nodes in a trained model, and drawings of topologies."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = """chimera show runs/demo/digits/chimera 7 --layer 0
  chimera show runs/demo/words/chimera "return a [MASK] of strings"
  chimera show runs/demo/molecules/chimera "CN1C=NC2=C1C(=O)N(C(=O)N2C)C" --node O10 --out caffeine
  chimera show topology grid:4x5
  chimera show topology smiles:c1ccccc1O --out phenol.png"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options."""
    parser.usage = "chimera show RUN [INPUT] [options]\n       chimera show topology SPEC [options]"
    parser.add_argument("run_or_topology", metavar="RUN", help="folder of a run or of a saved model; or: topology")
    parser.add_argument(
        "input", nargs="?", metavar="INPUT",
        help="an image file, a sentence ([MASK] marks words to predict), a molecule as SMILES, or the number of a test "
        "sample (0). For a topology: line:8, sequence:8, grid:4x5, ring:6, tree:15, smiles:CCO, or a file with one "
        "edge per line, 0 1 for both directions or 0 -> 1 for one",
    )  # fmt: skip
    parser.add_argument("--node", metavar="NODE", help="the node to show first, by number or label (a word, or C3)")
    parser.add_argument("--layer", type=int, metavar="N", help="layer, counted from 0 (the mean of all)")
    parser.add_argument("--head", type=int, metavar="N", help="head, counted from 0 (the mean of all)")
    parser.add_argument(
        "--out", type=Path, default=Path("influence"), metavar="PATH",
        help="writes the page PATH.html and the picture PATH.png, or only one if PATH has its ending (influence)",
    )  # fmt: skip
