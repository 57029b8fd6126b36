"""Predict, and write a table."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

from chimera_lab.cli.options import check_parent
from chimera_lab.data.files import read_lines, write_atomically
from chimera_lab.data.image_files import SUFFIXES
from chimera_lab.data.molecules import csv_lines
from chimera_lab.predict import predict
from chimera_lab.show.loading import load
from chimera_lab.training.files import to_json

_FORMATS = (".csv", ".json")


def run(args: argparse.Namespace) -> None:
    """Read the inputs that the model takes, predict, and write csv or json."""
    if args.out is not None:
        check_parent(args.out)
        if args.out.suffix not in _FORMATS:
            raise ValueError(f"--out must end in .csv or .json, found {args.out}")
    trained = load(args.run)
    rows = predict(trained, _inputs(trained.model.config.model_type, args.input, args.smiles), args.batch_size)
    if args.out is None:
        print(_csv(rows), end="")
        return
    text = _csv(rows) if args.out.suffix == ".csv" else to_json(rows, indent=2) + "\n"
    write_atomically(args.out, lambda file: file.write(text.encode()))
    print(f"{len(rows):,} predictions in {args.out}")


def _inputs(kind: str, path: Path, smiles: str) -> list[str]:
    """SMILES, paths of images, or lines."""
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    if kind == "chimera_image":
        found = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
        if not found:
            raise ValueError(f"{path} has no images: files that end in {', '.join(SUFFIXES)}")
        return [str(p) for p in found]
    if path.is_dir():
        expected = "a csv file of molecules" if kind == "chimera_graph" else "a text file"
        raise ValueError(f"this model takes {expected}, found the folder {path}")
    if kind == "chimera_graph":
        return [row[smiles] for _, row in csv_lines(path, (smiles,))]
    lines = [line.rstrip("\r\n") for _, line in read_lines(path)]
    if not lines:
        raise ValueError(f"{path} is empty: write a text in each line")
    return lines


def _csv(rows: list[dict[str, Any]]) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
