"""The demo's report: results, learning curves, speed and maps of influence on one page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from chimera_lab.cli.demo.contests import CONTESTS, OURS, Contest

if TYPE_CHECKING:
    from rich.table import Table

    from chimera_lab.training.run import Run

Runs = Mapping[str, Mapping[str, "Run"]]

HEAD = ("data", "model", "test", "parameters", "learning rate", "steps", "seconds")


def rows(runs: Runs) -> list[tuple[str, ...]]:
    """The cells of each model, in the order of `HEAD`."""
    cells = []
    for contest in CONTESTS:
        for name, run in runs[contest.name].items():
            result: Any = run.result
            figure = contest.in_words(result["metrics"][contest.metric])
            sizes = f"{result['parameters']:,}", f"{run.recipe.lr:g}", str(result["steps"]), f"{result['seconds']:.0f}"
            cells.append((f"{contest.title}: {contest.what}", name, figure, *sizes))
    return cells


def winners(runs: Runs) -> set[int]:
    """Numbers of the rows with the better figure of each contest."""
    found, start = set(), 0
    for contest in CONTESTS:
        results: list[Any] = [run.result for run in runs[contest.name].values()]
        figures = [result["metrics"][contest.metric] for result in results]
        best = max(figures) if contest.percent else min(figures)
        found |= {start + k for k, figure in enumerate(figures) if figure == best}
        start += len(figures)
    return found


def terminal(runs: Runs) -> Table:
    """The table for a terminal."""
    from rich.table import Table

    table, better = Table(*HEAD), winners(runs)
    for number, row in enumerate(rows(runs)):
        what = row[0].partition(": ")[2]  # a terminal is narrow
        table.add_row(what, *row[1:], style="bold" if number in better else "")
    return table


def loading(run: Run) -> str:
    """The Python that loads a run's model."""
    import json

    config = json.loads((run.model / "config.json").read_text(encoding="utf-8"))
    return f'chimera_ssm.{config["architectures"][0]}.from_pretrained("{run.model}")'


def html(runs: Runs, speeds: list[dict[str, Any]]) -> str:
    """The whole page."""
    from chimera_lab.show import page
    from chimera_lab.show.loading import load, show

    views = [show(load(runs[c.name][OURS].folder), c.example, None, None, None) for c in CONTESTS]
    return page.document(
        "Chimera: one model, three topologies",
        "<h1>One model, three topologies</h1>",
        "<p>Text is a line, an image a grid, a molecule itself: the same layer, y = ((I − A)⁻¹ ⊙ C B̄ᵀ) V, trained on "
        "each, beside the usual model for such data with as many parameters, as many steps and a learning rate of its "
        "own choice. Small models, minutes of training, one seed: a look at how it works, not a benchmark.</p>",
        "<h2>Results</h2>",
        page.table(HEAD, [[escape(cell) for cell in row] for row in rows(runs)], winners(runs)),
        "<h2>Learning curves, on test data</h2>",
        '<div class="charts">',
        *(_curves(contest, runs[contest.name]) for contest in CONTESTS),
        "</div>",
        "<h2>Speed against attention</h2>",
        "<p>Time of the mixer alone, as a multiple of the time of PyTorch's "
        "<code>scaled_dot_product_attention</code> on as many nodes, measured in turns on this machine. "
        "Below 1 is faster.</p>",
        page.table(("", "forward", "", "forward + backward", ""), map(_speed, speeds)),
        "<h2>What each word, pixel and atom hears</h2>",
        f"<p>{escape(page.LEGEND)}</p>",
        *(page.figure(view) for view in views),
        "<h2>The models</h2>",
        *(f"<p><code>{escape(loading(runs[c.name][OURS]))}</code></p>" for c in CONTESTS),
        f"<p>Other inputs: <code>chimera show {escape(str(runs[CONTESTS[0].name][OURS].folder))} …</code></p>",
    )


def _curves(contest: Contest, runs: Mapping[str, Run]) -> str:
    from chimera_lab.show.charts import curves
    from chimera_lab.training.records import read_table

    series = {}
    for name, run in runs.items():
        table = read_table(run.folder / "metrics.csv")
        series[name] = [int(r["step"]) for r in table], [float(r[f"test_{contest.metric}"]) for r in table]
    chart = curves(contest.what, series, "steps", contest.percent)
    return f"<figure><figcaption>{escape(contest.title)}</figcaption>{chart}</figure>"


def _speed(found: Mapping[str, Any]) -> list[str]:
    from chimera_lab.cli.bench.table import ratio_text

    cells = [escape(f"{found['what']}, against {found['against']}")]
    for key in ("forward", "backward"):
        width = min(8.0, 4 * found[key])
        cells += [ratio_text(found[key]), f'<span class="bar" style="width: {width:.2f}rem"></span>']
    return cells
