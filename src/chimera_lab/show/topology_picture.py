"""A topology, its DAGs and its resolvent as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from chimera_lab.show.picture import RAMP, links, literal, loops
from chimera_lab.show.topologies import TopologyView
from chimera_lab.show.view import span

Array = np.ndarray


def draw(shown: TopologyView, path: Path) -> None:
    """Draw the topology, its DAGs with their levels, and the resolvent."""
    places = np.array(shown.view.scene.drawing["places"])
    drawn = shown.dags[:4]
    figure = Figure(figsize=(4 * (2 + len(drawn)), 4), layout="constrained")
    axes = figure.subplots(1, 2 + len(drawn))
    drawing = shown.view.scene.drawing
    links(axes[0], places, drawing["links"], drawing["directed"])
    loops(axes[0], places, drawing["loops"])
    texts = list(map(str, drawing["symbols"]))
    _dots(axes[0], places, texts, "#f6f3fb", shown.view.scene.title)
    for k, dag in enumerate(drawn):
        levels = dag.levels.numpy()
        links(axes[1 + k], places, [(a, b, 1) for a, b in dag.edge_index.t().tolist()], True)
        shades = RAMP(0.6 * levels / max(1, levels.max()))
        _dots(axes[1 + k], places, levels.tolist(), shades, f"DAG {k + 1} of {len(shown.dags)}, levels")
    low, high = span(shown.view.planes[0])
    matrix = axes[-1].imshow(np.maximum(shown.view.planes[0, 0], low), cmap=RAMP, norm=LogNorm(low, high))
    axes[-1].set(title=literal(f"resolvent: {shown.view.menus[0][1][0]}"), xlabel="influence of node", ylabel="on node")
    for axis in (axes[-1].xaxis, axes[-1].yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(matrix, ax=axes[-1], shrink=0.8)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _dots(axes: Any, places: Array, texts: list[Any], shades: Any, title: str) -> None:
    axes.scatter(*places.T, s=200, c=shades, edgecolors="#655d73", zorder=2)
    for (x, y), text in zip(places, texts, strict=True):
        axes.text(x, y, literal(str(text)), ha="center", va="center", size=8, zorder=3)
    (left, top), (right, bottom) = places.min(0) - 0.6, places.max(0) + 0.6  # a line has no height
    axes.set(title=literal(title), aspect="equal", xlim=(left, right), ylim=(bottom, top))
    axes.axis("off")
