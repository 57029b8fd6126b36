"""Write reports to files and print them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import rich
from rich.markdown import Markdown

from chimera_lab.data.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(
    text: str, path: Path, docs: Path | None, figures: Mapping[str, Figure] = MappingProxyType({})
) -> None:
    """Print a report in Markdown and write it to ``path``, and to ``docs`` if given, with its figures beside it."""
    for file in (path, docs):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lambda opened: opened.write(text.encode()))
            for name, figure in figures.items():
                figure.savefig(file.parent / name, dpi=120)
    rich.print(Markdown(text))
    print(f"report: {path}")
