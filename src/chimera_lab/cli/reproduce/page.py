"""The report of a study as a page: its tables, how each row learned beside the first, and what the first one hears."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chimera_lab.studies.report import Block
    from chimera_lab.studies.study import Study


def document(title: str, pieces: Sequence[str]) -> str:
    """The whole page."""
    from chimera_lab.show import page

    return page.document(f"Chimera: {title}", f"<h1>{escape(title)}</h1>", *pieces)


def pieces(study: Study, blocks: Sequence[Block], folder: Path) -> list[str]:
    """A study as pieces of HTML."""
    from chimera_lab.show import page
    from chimera_lab.studies.study import run_folder
    from chimera_lab.training.run import open_run

    first = study.rows[0].name
    charts = [chart for row in study.rows[1:] if (chart := _chart(folder, first, row.name))]
    maps = []
    if open_run(run_folder(folder, first, "seed-0")).result is not None:  # it did not diverge
        maps = [f"<h2>What {escape(first)} hears</h2>", f"<p>{escape(page.LEGEND)}</p>", _map(folder, first)]
    curves = ["<h2>Training losses, first seed</h2>", '<div class="charts">', *charts, "</div>"] if charts else []
    return [*map(html, blocks), *curves, *maps]


def html(block: Block) -> str:
    """A block of a report."""
    from chimera_lab.show import page
    from chimera_lab.studies.report import Cells, Heading

    if isinstance(block, Heading):
        return f"<h2>{escape(block.text)}</h2>"
    if isinstance(block, Cells):
        return page.table(map(escape, block.head), [[escape(cell) for cell in row] for row in block.rows])
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", escape(block.text))
    return f"<p>{text}</p>"


def _chart(folder: Path, first: str, other: str) -> str:
    """Nothing for runs that are too short to have been logged."""
    from chimera_lab.show.charts import curves
    from chimera_lab.studies.study import run_folder
    from chimera_lab.training.records import read_table

    series = {}
    for name in (first, other):
        table = read_table(run_folder(folder, name, "seed-0") / "steps.csv")
        series[name] = [int(row["step"]) for row in table], [float(row["loss"]) for row in table]
    if not all(steps for steps, _ in series.values()):
        return ""
    return f"<figure><figcaption>{escape(other)}</figcaption>{curves('training loss', series, 'steps', False)}</figure>"


def _map(folder: Path, row: str) -> str:
    """What the nodes of the first test sample hear."""
    from chimera_lab.show import page
    from chimera_lab.show.loading import load, show
    from chimera_lab.studies.study import run_folder

    return page.figure(show(load(run_folder(folder, row, "seed-0")), None, None, None, None))
