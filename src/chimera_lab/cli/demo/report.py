"""The demo's report: results, learning curves, speed and maps of influence on one page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from rich.table import Table

from chimera_lab.cli.bench.table import ratio_text
from chimera_lab.cli.demo.comparisons import COMPARISONS, OURS, Comparison
from chimera_lab.show import page
from chimera_lab.show.charts import curves
from chimera_lab.show.loading import load
from chimera_lab.show.models import show_model
from chimera_lab.training.records import read_table
from chimera_lab.training.run import Run

Runs = Mapping[str, Mapping[str, Run]]

HEAD = ("data", "model", "test", "parameters", "learning rate", "steps", "seconds")


def rows(runs: Runs) -> list[tuple[str, ...]]:
    """The cells of each model, in the order of `HEAD`."""
    cells = []
    for comparison in COMPARISONS:
        for name, run in runs[comparison.name].items():
            result: Any = run.result
            figure = comparison.format_metric(result["metrics"][comparison.metric])
            sizes = f"{result['parameters']:,}", f"{run.recipe.lr:g}", str(result["steps"]), f"{result['seconds']:.0f}"
            cells.append((f"{comparison.title}: {comparison.what}", name, figure, *sizes))
    return cells


def winners(runs: Runs) -> set[int]:
    """Indices of the rows with the better metric of each comparison."""
    found, start = set(), 0
    for comparison in COMPARISONS:
        results: list[Any] = [run.result for run in runs[comparison.name].values()]
        figures = [result["metrics"][comparison.metric] for result in results]
        best = max(figures) if comparison.percent else min(figures)
        found |= {start + k for k, figure in enumerate(figures) if figure == best}
        start += len(figures)
    return found


def terminal(runs: Runs) -> Table:
    """The results as a table for a terminal."""
    table, better = Table(*HEAD), winners(runs)
    for number, row in enumerate(rows(runs)):
        what = row[0].partition(": ")[2]  # only the metric: a terminal is narrow
        table.add_row(what, *row[1:], style="bold" if number in better else "")
    return table


def loading_code(run: Run) -> str:
    """The Python that loads a run's model."""
    config = json.loads((run.model / "config.json").read_text(encoding="utf-8"))
    return f'chimera_ssm.{config["architectures"][0]}.from_pretrained("{run.model}")'


def html(runs: Runs, speeds: list[dict[str, Any]]) -> str:
    """The whole page."""
    views = [show_model(load(runs[c.name][OURS].folder), c.example, None, None, None) for c in COMPARISONS]
    return page.document(
        "Chimera: one model, three topologies",
        "<h1>One model, three topologies</h1>",
        "<p>Text is a line, an image is a grid, a molecule is a graph. The same layer, y = ((I − A)⁻¹ ⊙ C B̄ᵀ) V, is "
        "trained on each, beside the standard baseline for such data with the same number of parameters and steps; the "
        "learning rate is tuned for each model. These are small models, trained for minutes with one seed: they show "
        "how the layer works and are not a benchmark.</p>",
        "<h2>Results</h2>",
        page.table(HEAD, [[escape(cell) for cell in row] for row in rows(runs)], winners(runs)),
        "<h2>Learning curves, on test data</h2>",
        '<div class="charts">',
        *(_curves(comparison, runs[comparison.name]) for comparison in COMPARISONS),
        "</div>",
        "<h2>Speed against attention</h2>",
        "<p>Time of the mixer divided by the time of PyTorch's <code>scaled_dot_product_attention</code> on as many "
        "nodes, measured alternately on this machine. Below 1, the mixer is faster.</p>",
        page.table(("", "forward", "", "forward + backward", ""), map(_speed, speeds)),
        "<h2>Influence between words, pixels and atoms</h2>",
        f"<p>{escape(page.LEGEND)}</p>",
        *(page.figure(view) for view in views),
        "<h2>The models</h2>",
        *(f"<p><code>{escape(loading_code(runs[c.name][OURS]))}</code></p>" for c in COMPARISONS),
        f"<p>Other inputs: <code>chimera show {escape(str(runs[COMPARISONS[0].name][OURS].folder))} …</code></p>",
    )


def _curves(comparison: Comparison, runs: Mapping[str, Run]) -> str:
    series = {}
    for name, run in runs.items():
        table = read_table(run.folder / "metrics.csv")
        series[name] = [int(r["step"]) for r in table], [float(r[f"test_{comparison.metric}"]) for r in table]
    chart = curves(comparison.what, series, "steps", comparison.percent)
    return f"<figure><figcaption>{escape(comparison.title)}</figcaption>{chart}</figure>"


def _speed(speed: Mapping[str, Any]) -> list[str]:
    cells = [escape(f"{speed['what']}, against {speed['against']}")]
    for key in ("forward", "backward"):
        width = min(8.0, 4 * speed[key])
        cells += [ratio_text(speed[key]), f'<span class="bar" style="width: {width:.2f}rem"></span>']
    return cells
