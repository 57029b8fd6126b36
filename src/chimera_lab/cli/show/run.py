"""Write the page and the picture of a model's influence maps or of a topology."""

from __future__ import annotations

import argparse
from pathlib import Path

from chimera_lab.show import page, picture, topology_page, topology_picture
from chimera_lab.show.loading import load
from chimera_lab.show.models import show_model
from chimera_lab.show.topologies import show_topology

_SUFFIXES = ".html", ".png"
_UNSUPPORTED = ".gif", ".jpg", ".jpeg", ".svg", ".pdf", ".webp", ".htm"


def run(args: argparse.Namespace) -> None:
    """Write a page and a picture."""
    paths = _paths(args.out)
    if args.run_or_topology == "topology":
        _show_topology(args, paths)
    else:
        _show_model(args, paths)
    for path in paths:
        print(f"wrote {path}")


def _paths(out: Path) -> list[Path]:
    if out.suffix.lower() in _UNSUPPORTED:
        raise ValueError(f"--out {out}: {' and '.join(_SUFFIXES)} are written, not {out.suffix}; leave it out for both")
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; add a name, such as {out / 'influence'}")
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {out.parent}; create it first")
    return [out] if out.suffix in _SUFFIXES else [out.with_name(f"{out.name}{suffix}") for suffix in _SUFFIXES]


def _show_model(args: argparse.Namespace, paths: list[Path]) -> None:
    view = show_model(load(Path(args.run_or_topology)), args.input, args.node, args.layer, args.head)
    for path in paths:
        if path.suffix == ".html":
            path.write_text(page.view_page(view), encoding="utf-8")
        else:
            picture.draw(view, path)
    print(", ".join(filter(None, (view.scene.title, view.scene.prediction))))
    if view.note:
        print(view.note)


def _show_topology(args: argparse.Namespace, paths: list[Path]) -> None:
    if args.input is None:
        raise ValueError("which topology? for example: chimera show topology grid:4x5")
    if args.layer is not None or args.head is not None:
        raise ValueError("a topology has no layers and heads: leave --layer and --head out")
    shown = show_topology(args.input, args.node)
    for path in paths:
        if path.suffix == ".html":
            path.write_text(topology_page.page(shown), encoding="utf-8")
        else:
            topology_picture.draw(shown, path)
    print(shown.summary)
