"""`chimera show`: what nodes hear in a trained model, and what topologies look like."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLE = """chimera show runs/demo/digits/chimera 7 --layer 0
  chimera show runs/demo/words/chimera "return a [MASK] of strings"
  chimera show runs/demo/molecules/chimera "CN1C=NC2=C1C(=O)N(C(=O)N2C)C" --node O10 --out caffeine
  chimera show topology grid:4x5
  chimera show topology smiles:c1ccccc1O --out phenol.png"""

_ENDINGS = ".html", ".png"
_OTHERS = ".gif", ".jpg", ".jpeg", ".svg", ".pdf", ".webp", ".htm"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    parser.usage = "chimera show RUN [INPUT] [options]\n       chimera show topology SPEC [options]"
    parser.add_argument("run_or_topology", metavar="RUN", help="folder of a run or of a saved model; or: topology")
    parser.add_argument(
        "input", nargs="?", metavar="INPUT",
        help="an image's file, a sentence ([MASK] stands for words to guess), a molecule as SMILES, or the number of a "
        "test sample (0); of a topology: line:8, sequence:8, grid:4x5, ring:6, tree:15, smiles:CCO, or a file with an "
        "edge on each line, 0 1 for both ways or 0 -> 1 for one",
    )  # fmt: skip
    parser.add_argument("--node", metavar="NODE", help="who hears: its number or label, such as a word or C3")
    parser.add_argument("--layer", type=int, metavar="N", help="from 0 on; the mean over all if omitted")
    parser.add_argument("--head", type=int, metavar="N", help="from 0 on; the mean over all if omitted")
    parser.add_argument(
        "--out", type=Path, default=Path("heard"), metavar="PATH",
        help="PATH.html, a page, and PATH.png, a picture, are written, or only the one that PATH ends in (heard)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Write a page and a picture."""
    paths = _paths(args.out)
    if args.run_or_topology == "topology":
        _topology(args, paths)
    else:
        _model(args, paths)
    for path in paths:
        print(f"wrote {path}")


def _paths(out: Path) -> list[Path]:
    if out.suffix.lower() in _OTHERS:
        raise ValueError(f"--out {out}: {' and '.join(_ENDINGS)} are written, not {out.suffix}; leave it out for both")
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; add a name, such as {out / 'heard'}")
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {out.parent}; create it first")
    return [out] if out.suffix in _ENDINGS else [out.with_name(f"{out.name}{ending}") for ending in _ENDINGS]


def _model(args: argparse.Namespace, paths: list[Path]) -> None:
    from chimera_lab.show import page, picture
    from chimera_lab.show.loading import load, show

    view = show(load(Path(args.run_or_topology)), args.input, args.node, args.layer, args.head)
    for path in paths:
        if path.suffix == ".html":
            path.write_text(page.view_page(view), encoding="utf-8")
        else:
            picture.draw(view, path)
    print("\n".join(filter(None, (f"{view.scene.title}: {view.scene.verdict}".rstrip(": "), view.note))))


def _topology(args: argparse.Namespace, paths: list[Path]) -> None:
    from chimera_lab.show import topologies

    if args.input is None or args.layer is not None or args.head is not None:
        raise ValueError("which topology? for example: chimera show topology grid:4x5 (layers and heads are a model's)")
    shown = topologies.show(args.input, args.node)
    for path in paths:
        if path.suffix == ".html":
            path.write_text(topologies.page(shown), encoding="utf-8")
        else:
            topologies.draw(shown, path)
    print(shown.summary)
