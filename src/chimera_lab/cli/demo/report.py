"""The demo's report: results, learning curves, pictures of mazes, maps of influence and speed on one page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from rich.table import Table

from chimera_lab.cli.bench.table import ratio_text
from chimera_lab.cli.demo import maze, maze_picture
from chimera_lab.cli.demo.comparisons import COMPARISONS, IDENTITY, OURS, Comparison
from chimera_lab.cli.demo.predictions import predictions
from chimera_lab.show import page
from chimera_lab.show.charts import curves
from chimera_lab.show.loading import load
from chimera_lab.show.models import show_model
from chimera_lab.training.records import read_table
from chimera_lab.training.run import Run

Runs = Mapping[str, Mapping[str, Run]]

HEAD = ("model", "on test data", "parameters", "learning rate", "training steps", "training time")

INTRODUCTION = (
    "A grid of pixels, a line of words, a molecule of atoms: the same layer is trained on each. It lets every node of "
    "a graph influence every other node, along all paths of the graph. That is the matrix (I − A)⁻¹, called the "
    "resolvent L: A holds the weights of the edges, and L adds up the weights of all paths.",
    f"Beside <b>{OURS}</b> you see <b>{IDENTITY}</b>, the same network without the resolvent, in which nodes "
    "influence each other only through a local convolution, and a <b>standard model</b> for such data. The difference "
    f"between {OURS} and {IDENTITY} is what the paths contribute. All three have the same number of parameters within "
    "3 % and the same number of training steps; the learning rate of each was chosen among three, on held-out "
    "training data. Mazes need paths; the answers about words and molecules are mostly local, so expect "
    f"{OURS} and {IDENTITY} to be about level there. These are small models, trained for a minute or less with one "
    "seed: they show how the layer works and are not a benchmark.",
)
PICTURES = (
    "What influences the marked cell? The first picture is a test maze: walls are black, the two marked cells red, "
    "and a line surrounds all cells that are connected with the upper of them. In the other pictures the colour of a "
    "cell is its share of all influence on that upper cell: a row of the resolvent or, for ViT, of the attention, "
    "divided by its sum. Small squares mark walls, rings the two marked cells."
)
SEPARATION = (
    "The percentage below a picture says how often, of two free cells, of which one is connected with the marked cell "
    "and one is not, the connected one has more influence, on average over 100 test mazes; 50 % is chance. Each "
    "picture shows the layer and head in which this percentage is highest on 40 training mazes. The pictured maze is "
    "the first test maze with marked cells in two separate regions of at least 20 cells. A model without training "
    "knows only distances; training closes the edges into walls. With L = I a cell has no influence but on itself."
)
SPEED = (
    "Time of the resolvent's computation divided by the time of PyTorch's attention "
    "(<code>scaled_dot_product_attention</code>) on as many nodes, measured alternately on this machine. Below 1, the "
    "resolvent is faster. Forward + backward is a training step, forward alone a prediction."
)


def row(comparison: Comparison, name: str, run: Run) -> tuple[str, ...]:
    """The cells of a model, in the order of `HEAD`."""
    result: Any = run.result
    figure = comparison.format_metric(result["metrics"][comparison.metric])
    sizes = f"{result['parameters']:,}", f"{run.recipe.lr:g}", str(result["steps"]), f"{result['seconds']:.0f} s"
    return name, figure, *sizes


def best(comparison: Comparison, runs: Mapping[str, Run]) -> set[int]:
    """Indices of the rows with the best metric of a comparison."""
    results: list[Any] = [run.result for run in runs.values()]
    figures = [result["metrics"][comparison.metric] for result in results]
    found = max(figures) if comparison.percent else min(figures)
    return {k for k, figure in enumerate(figures) if figure == found}


def terminal(runs: Runs) -> Table:
    """The results as a table for a terminal."""
    table = Table("", *HEAD, caption="bold: the best of each group", caption_justify="left")
    for comparison in COMPARISONS:
        better = best(comparison, runs[comparison.name])
        for number, (name, run) in enumerate(runs[comparison.name].items()):
            what = "" if number else comparison.what
            table.add_row(what, *row(comparison, name, run), style="bold" if number in better else "")
        table.add_section()
    return table


def loading_code(run: Run) -> str:
    """The Python that loads a run's model."""
    config = json.loads((run.model / "config.json").read_text(encoding="utf-8"))
    return f'chimera_ssm.{config["architectures"][0]}.from_pretrained("{run.model}")'


def html(runs: Runs, speeds: list[dict[str, Any]]) -> str:
    """The whole page."""
    return page.document(
        "Chimera: one layer, three topologies",
        "<h1>One layer, three topologies</h1>",
        *(f"<p>{text}</p>" for text in INTRODUCTION),
        *(part for comparison in COMPARISONS for part in _section(comparison, runs[comparison.name])),
        "<h2>Speed beside attention</h2>",
        f"<p>{SPEED}</p>",
        page.table(("", "forward", "", "forward + backward", ""), map(_speed, speeds)),
        "<h2>The models</h2>",
        "<p>In Python, after <code>import chimera_ssm</code>:</p>",
        *(f"<p><code>{escape(loading_code(runs[c.name][OURS]))}</code></p>" for c in COMPARISONS),
        "<p>Maps of other inputs (<code>chimera show --help</code> lists the options):</p>",
        *(f"<p><code>{escape(show_command(c, runs[c.name][OURS]))}</code></p>" for c in COMPARISONS),
    )


def show_command(comparison: Comparison, run: Run) -> str:
    """The command that draws the map of another input."""
    inputs = {"words": '"return a copy of the [MASK] in lower case ."', "molecules": '"CCO"'}
    return f"chimera show {run.folder} {inputs.get(comparison.name, '7')}"


def _section(comparison: Comparison, runs: Mapping[str, Run]) -> list[str]:
    """The part of the page about one comparison."""
    rows = [[escape(cell) for cell in row(comparison, name, run)] for name, run in runs.items()]
    parts = [
        f"<h2>{escape(comparison.title)}</h2>",
        f"<p>{escape(comparison.question)} The best row is bold.</p>",
        page.table(HEAD, rows, best(comparison, runs)),
    ]
    shown: dict[str, Any] = {"given": comparison.example, "node": None, "layer": None, "head": None}
    if comparison.name == "mazes":
        found, panels = maze.panels(runs, comparison.baseline)
        shown = {"given": str(found.number), "node": str(found.marked[0])}
        shown |= {"layer": panels[1].layer, "head": panels[1].head}
        picture = maze_picture.figure(found, panels)
        parts += [f"<p>{PICTURES}</p>", picture, f'<p class="quiet">{SEPARATION}</p>']
    parts.append(_curves(comparison, runs))
    head, cells = predictions(comparison, runs)
    if cells:
        table = page.table(map(escape, head), [[escape(cell) for cell in line] for line in cells])
        parts += ["<h3>Predictions beside the truth</h3>", table]
    explained = page.LEGEND if comparison is COMPARISONS[0] else "As above: point at a node to see what influences it."
    view = show_model(load(runs[OURS].folder), **shown)
    return [
        *parts,
        "<h3>Influence, node by node</h3>",
        f"<p>{escape(explained)} {escape(comparison.example_note)}</p>",
        page.figure(view),
    ]


def _curves(comparison: Comparison, runs: Mapping[str, Run]) -> str:
    series = {}
    for name, run in runs.items():
        table = read_table(run.folder / "metrics.csv")
        series[name] = [int(r["step"]) for r in table], [float(r[f"test_{comparison.metric}"]) for r in table]
    chart = curves(f"{comparison.what}, on test data", series, "training steps", comparison.percent)
    return f'<figure class="narrow"><figcaption>During training</figcaption>{chart}</figure>'


def _speed(speed: Mapping[str, Any]) -> list[str]:
    cells = [escape(f"{speed['what']}, beside {speed['against']}")]
    for key in ("forward", "backward"):
        width = min(8.0, 4 * speed[key])
        cells += [ratio_text(speed[key]), f'<span class="bar" style="width: {width:.2f}rem"></span>']
    return cells
