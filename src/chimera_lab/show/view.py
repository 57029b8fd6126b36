"""What is drawn: nodes with places or words, and what each of them hears."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray

#: Bytes of a page's map, above which only some of the nodes can be asked what they hear; but so many at least.
MOST_BYTES, LEAST_NODES = 3_000_000, 16
#: Colours span this factor; what is weaker than that, compared with the strongest, looks like nothing.
SPAN = 1e4


@dataclass(frozen=True)
class Scene:
    """The nodes of one input, and how to draw them.

    Attributes:
        kind: ``"image"``, ``"words"`` or ``"graph"``.
        title: what is shown.
        node: what a node is called: pixel, patch, word, atom.
        labels: of the nodes, to name one by.
        drawing: what the kind needs, ready for JSON. An image: rows, columns, source (a data URI); words: texts, joined
            (whether a word continues the one before); a graph: places, links (source, target, how many strokes),
            loops (nodes with an edge to themselves), symbols, directed.
        focus: the node to begin with.
        verdict: what the model makes of the input, in words.
    """

    kind: str
    title: str
    node: str
    labels: Sequence[str]
    drawing: dict[str, Any]
    focus: int = 0
    verdict: str = ""

    def find(self, name: str | None) -> int:
        """The number of a node by number or label; the focus if omitted."""
        if name is None:
            return self.focus
        if name in self.labels:
            return list(self.labels).index(name)
        if name.isdigit() and int(name) < len(self.labels):
            return int(name)
        raise ValueError(
            f"--node is the number of one {self.node}, 0 to {len(self.labels) - 1}, or its label such as "
            f"{self.labels[self.focus]!r}; found {name!r}"
        )


@dataclass(frozen=True)
class View:
    """A scene, and what its nodes hear.

    Attributes:
        scene: the nodes.
        planes: ``[A, B, K, T]``: for each choice of both menus what each of ``nodes`` hears from all nodes.
        menus: for both menus what is chosen there and the names of the choices.
        nodes: numbers of the K nodes whose rows are kept.
        chosen: choices to begin with.
        node: node to begin with, one of ``nodes``.
        note: in one sentence what was left out.
        matrix: whether to draw the whole matrix, too.
    """

    scene: Scene
    planes: Array
    menus: tuple[tuple[str, Sequence[str]], tuple[str, Sequence[str]]]
    nodes: Array
    chosen: tuple[int, int] = (0, 0)
    node: int = 0
    note: str = ""
    matrix: bool = field(default=False, kw_only=True)

    @property
    def row(self) -> Array:
        """What the node to begin with hears, ``[T]``."""
        return self.planes[self.chosen][int(np.flatnonzero(self.nodes == self.node)[0])]

    def codes(self) -> Array:
        """The planes as bytes: 0 for nothing, 1 to 255 on a logarithmic scale over their `span`, at most 2 % off."""
        low, high = span(self.planes)
        steps = 1 + 254 * np.log(np.maximum(self.planes, low) / low) / max(np.log(high / low), 1e-9)
        return np.where(self.planes < low, 0, steps.round()).astype(np.uint8)


def span(values: Array) -> tuple[float, float]:
    """The values at the two ends of the colours."""
    high = float(values.max(initial=0.0)) or 1.0
    least = float(values[values > 0].min(initial=high))
    return max(least / 2, high / SPAN) * (1 - 1e-6), high  # the least is told from nothing


def view_of(scene: Scene, hear: Callable[[list[int]], Array], node: int, layer: int | None, head: int | None) -> View:
    """A view of a model's mixers.

    Args:
        scene: the nodes.
        hear: for nodes their rows in each layer and head, ``[layers, heads, K, T]``.
        node: the node to begin with.
        layer: the layer to begin with; the mean over all if omitted.
        head: the head to begin with; the mean over all if omitted.
    """
    layers, heads = hear([node]).shape[:2]
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 0 <= number < count:
            raise ValueError(f"--{name} is from 0 to {count - 1} in this model, found {number}")
    nodes = _kept(len(scene.labels), (layers + 1) * (heads + 1), node)
    rows = hear(nodes.tolist())
    rows = np.concatenate([rows.mean(0, keepdims=True), rows])
    rows = np.concatenate([rows.mean(1, keepdims=True), rows], axis=1)
    chosen = (0 if layer is None else layer + 1, 0 if head is None else head + 1)
    menus = ("layer", _choices(layers)), ("head", _choices(heads))
    note = f"Too large to keep all: {len(nodes)} of {len(scene.labels)} {scene.node}s, evenly spread, can be asked."
    return View(scene, rows, menus, nodes, chosen, node, "" if len(nodes) == len(scene.labels) else note)


def _choices(count: int) -> list[str]:
    return ["mean", *map(str, range(count))]


def _kept(count: int, planes: int, node: int) -> Array:
    """Nodes whose rows fit into a page, the given one among them."""
    most = min(count, max(LEAST_NODES, MOST_BYTES // (planes * count)))
    nodes = np.linspace(0, count - 1, most).round().astype(int)
    nodes[np.abs(nodes - node).argmin()] = node
    return nodes
