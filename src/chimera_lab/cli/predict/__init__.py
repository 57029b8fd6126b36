"""`chimera predict`: predictions of a trained model for unlabelled data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = """chimera predict chimera_graph_nci molecules.csv
  chimera predict runs/graph-nci-20260101-120000 molecules.csv --out predictions.csv
  chimera predict runs/image-digits-20260101-120000 pictures/ --out predictions.json
  chimera predict runs/text-glue-cola-20260101-120000 sentences.txt"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Declare the options: the run, the input and the output."""
    parser.usage = "chimera predict RUN INPUT [--out FILE] [--smiles COLUMN]"
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="folder of a run, or of a saved model; or a trained model of the package, as chimera_graph_nci",
    )
    parser.add_argument(
        "input",
        type=Path,
        metavar="INPUT",
        help="a csv file of molecules; an image or a folder of images; or a text file with a text in each line",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write to FILE, .csv or .json; by default csv on stdout"
    )
    parser.add_argument(
        "--smiles", default="smiles", metavar="COLUMN", help="csv: column of molecules; default: smiles"
    )
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="inputs at a time; default: 32")
