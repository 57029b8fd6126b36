"""The report of a study as an HTML page: its tables, learning curves, and influence maps of the first row's model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from chimera_lab.show import page
from chimera_lab.show.charts import curves
from chimera_lab.show.loading import load
from chimera_lab.show.models import show_model
from chimera_lab.studies.report import Block, Cells, Heading
from chimera_lab.studies.study import Study, run_folder
from chimera_lab.training.records import read_table
from chimera_lab.training.run import open_run


def document(title: str, parts: Sequence[str]) -> str:
    """The whole page."""
    return page.document(f"Chimera: {title}", f"<h1>{escape(title)}</h1>", *parts)


def study_html(study: Study, blocks: Sequence[Block], folder: Path) -> list[str]:
    """The HTML parts of one study."""
    first = study.rows[0].name
    charts = [chart for row in study.rows[1:] if (chart := _chart(folder, first, row.name))]
    maps = []
    if open_run(run_folder(folder, first, "seed-0")).result is not None:  # it did not diverge
        maps = [f"<h2>Influence maps of {escape(first)}</h2>", f"<p>{escape(page.LEGEND)}</p>", _map(folder, first)]
    losses = ["<h2>Training losses, first seed</h2>", '<div class="charts">', *charts, "</div>"] if charts else []
    return [*map(block_html, blocks), *losses, *maps]


def block_html(block: Block) -> str:
    """One block of a report."""
    if isinstance(block, Heading):
        return f"<h2>{escape(block.text)}</h2>"
    if isinstance(block, Cells):
        return page.table(map(escape, block.head), [[escape(cell) for cell in row] for row in block.rows])
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", escape(block.text))
    return f"<p>{text}</p>"


def _chart(folder: Path, first: str, other: str) -> str:
    """The training losses of two rows; empty if a run was too short to be logged."""
    series = {}
    for name in (first, other):
        table = read_table(run_folder(folder, name, "seed-0") / "steps.csv")
        series[name] = [int(row["step"]) for row in table], [float(row["loss"]) for row in table]
    if not all(steps for steps, _ in series.values()):
        return ""
    return f"<figure><figcaption>{escape(other)}</figcaption>{curves('training loss', series, 'steps', False)}</figure>"


def _map(folder: Path, row: str) -> str:
    """The influence map of the first test sample."""
    return page.figure(show_model(load(run_folder(folder, row, "seed-0")), None, None, None, None))
