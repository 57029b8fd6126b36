"""A view as a PNG file: the influence of all nodes on one."""

from __future__ import annotations

import io
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from chimera_lab.show.view import View, span

#: The page's colours, light.
RAMP = LinearSegmentedColormap.from_list("influence", ["#f6f3fb", "#d5c6ed", "#a587d9", "#7143b5", "#36106a"])
_CHOSEN = "#b8560b"
_LINE = 92  # letters


def draw(view: View, path: Path) -> None:
    """Draw the influence on the node to show first, in the layer and head to show first."""
    low, high = span(view.planes[view.chosen])
    shades = _Shades(np.maximum(view.row, low), LogNorm(low, high))
    figure = {"image": _image, "words": _words, "graph": _graph}[view.scene.kind](view, shades)
    chosen = (f"{name} {choices[k]}" for (name, choices), k in zip(view.menus, view.chosen, strict=True) if name)
    title = f"{view.scene.title}: influence on {view.scene.name(view.node)} ({', '.join(chosen)})"
    figure.suptitle(literal("\n".join(filter(None, (title, view.scene.prediction)))), fontsize=10)
    figure.savefig(path, dpi=130)


def literal(text: str) -> str:
    """Escape a text for Matplotlib, which reads what stands between dollar signs as a formula."""
    return text.replace("$", r"\$")


class _Shades:
    """Values with their colours."""

    def __init__(self, values: np.ndarray, norm: Any):
        self.values, self.mappable = values, ScalarMappable(norm, RAMP)
        self.colours = self.mappable.to_rgba(values)
        self.inks = ["#1d1827" if c[:3] @ (0.299, 0.587, 0.114) > 0.55 else "#fdfcff" for c in self.colours]

    def bar(self, figure: Figure, axes: Any, **options: Any) -> None:
        figure.colorbar(self.mappable, ax=axes, label="influence", **options)


def _image(view: View, shades: _Shades) -> Figure:
    from PIL import Image

    rows, columns = (view.scene.drawing[name] for name in ("rows", "columns"))
    source = view.scene.drawing["source"].partition(",")[2]
    figure = Figure(figsize=(8, 1.2 + 3.4 * rows / columns), layout="constrained")
    left, right = figure.subplots(1, 2)
    picture = np.asarray(Image.open(io.BytesIO(b64decode(source))))
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    left.imshow(picture, cmap="gray", extent=extent, interpolation="nearest")
    right.imshow(shades.colours.reshape(rows, columns, 4), extent=extent)
    row, column = divmod(view.node, columns)
    for axes in (left, right):
        axes.plot(column, row, "s", mfc="none", mec=_CHOSEN, ms=max(4, 150 / columns), mew=2)
        axes.set(xticks=[], yticks=[])
    shades.bar(figure, right)
    return figure


def _words(view: View, shades: _Shades) -> Figure:
    lines, at = 0, 0
    spots = []
    for text, joined in zip(view.scene.drawing["texts"], view.scene.drawing["joined"], strict=True):
        at += 0 if joined or not at else 1
        if at + len(text) > _LINE and not joined:
            lines, at = lines + 1, 0
        spots.append((at, lines))
        at += len(text)
    figure = Figure(figsize=(9, 1.6 + 0.42 * lines), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-1, _LINE + 9), ylim=(lines + 0.8, -0.8))
    axes.axis("off")
    for k, (column, line) in enumerate(spots):
        box = {"facecolor": shades.colours[k], "edgecolor": _CHOSEN if k == view.node else "none", "pad": 2, "lw": 2}
        text = literal(view.scene.drawing["texts"][k])
        axes.text(column, line, text, family="monospace", size=10, color=shades.inks[k], bbox=box, va="center")
    shades.bar(figure, axes, orientation="horizontal", shrink=0.4, aspect=40)
    return figure


def _graph(view: View, shades: _Shades) -> Figure:
    drawing = view.scene.drawing
    places = np.array(drawing["places"])
    wide, high = np.ptp(places, axis=0) + 1.5
    figure = Figure(figsize=(8, float(np.clip(1.2 + 6 * high / wide, 2.5, 8))), layout="constrained")
    axes = figure.subplots()
    links(axes, places, drawing["links"], drawing["directed"])
    loops(axes, places, drawing["loops"])
    edges = [_CHOSEN if k == view.node else "#655d73" for k in range(len(places))]
    widths = [3.0 if k == view.node else 1.0 for k in range(len(places))]
    axes.scatter(*places.T, s=380, c=shades.colours, edgecolors=edges, linewidths=widths, zorder=2)
    for (x, y), symbol, ink in zip(places, drawing["symbols"], shades.inks, strict=True):
        axes.text(x, y, literal(symbol), ha="center", va="center", size=9, color=ink, zorder=3)
    axes.set(aspect="equal", xlim=(-0.7, wide - 0.8), ylim=(high - 0.8, -0.7))
    axes.axis("off")
    shades.bar(figure, axes, shrink=0.7)
    return figure


def links(axes: Any, places: np.ndarray, found: list[Any], directed: bool) -> None:
    """Draw strokes, or arrows, between places."""
    for a, b, strokes in found:
        ends = places[[a, b]]
        if directed:
            how = {"arrowstyle": "-|>", "color": "#655d73", "shrinkA": 8, "shrinkB": 8}
            axes.annotate("", ends[1], ends[0], arrowprops=how)
            continue
        across = (ends[1] - ends[0])[::-1] * (-1, 1) * 0.12
        count = int(np.ceil(strokes))
        for k in range(count):
            style = ":" if strokes % 1 and k else "-"
            axes.plot(*(ends + across * (k - (count - 1) / 2)).T, style, color="#655d73", lw=1.4, zorder=1)


def loops(axes: Any, places: np.ndarray, nodes: list[int]) -> None:
    """Draw a small ring behind each node with a self-loop, on the side away from the other nodes."""
    for node in nodes:
        x, y = places[node] - places.mean(0)
        x, y = (10 * x / np.hypot(x, y), -10 * y / np.hypot(x, y)) if x or y else (0, 10)  # points; the axis runs down
        beside = offset_copy(axes.transData, axes.figure, x, y, units="points")
        axes.scatter(*places[node], s=150, c="none", edgecolors="#655d73", transform=beside, clip_on=False, zorder=1)
