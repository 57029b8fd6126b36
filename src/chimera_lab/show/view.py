"""What is drawn: nodes with places or words, and the influence of all nodes on each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray

#: Largest map of a page in bytes; a larger input has rows for only some of its nodes, but at least for these many.
MAX_BYTES, MIN_NODES = 3_000_000, 16
#: Colours span this factor; values weaker than the strongest by more than that look like zero.
SPAN = 1e4


@dataclass(frozen=True)
class Scene:
    """The nodes of one input, and how to draw them.

    Attributes:
        kind: ``"image"``, ``"words"`` or ``"graph"``.
        title: caption.
        node: the word for a node: pixel, patch, word, atom.
        labels: labels of the nodes, by which they can be selected.
        drawing: data for drawing this kind, ready for JSON. An image: rows, columns, source (a data URI); words:
            texts, joined (whether a word continues the one before); a graph: places, links (source, target, number of
            strokes), loops (nodes with an edge to themselves), symbols, directed.
        focus: the node to show first.
        prediction: the model's prediction in words.
    """

    kind: str
    title: str
    node: str
    labels: Sequence[str]
    drawing: dict[str, Any]
    focus: int = 0
    prediction: str = ""

    def name(self, node: int) -> str:
        """A node in words; the patches of an image by row and column."""
        label = self.labels[node]
        return (
            f"{self.node} (row {label.replace(',', ', column ')})" if self.kind == "image" else f"{self.node} {label}"
        )

    def find(self, name: str | None) -> int:
        """The index of a node, given by number or label; the focus if omitted."""
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
    """A scene and rows of resolvents: the influence of all nodes on some of them.

    Attributes:
        scene: the nodes.
        planes: ``[A, B, K, T]``: for each choice of both menus, the influence of all T nodes on each of ``nodes``.
        menus: title and choices of both menus.
        nodes: indices of the K nodes whose rows are included.
        chosen: the choices to show first.
        node: the node to show first, one of ``nodes``.
        note: remarks, such as what was left out.
        matrix: whether to draw the whole matrix as well.
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
        """The influence of all nodes on the node to show first, ``[T]``."""
        return self.planes[self.chosen][int(np.flatnonzero(self.nodes == self.node)[0])]

    def codes(self) -> Array:
        """The planes as bytes: 0 for zero, 1 to 255 on a logarithmic scale over their `span`, at most 2 % off."""
        low, high = span(self.planes)
        steps = 1 + 254 * np.log(np.maximum(self.planes, low) / low) / max(np.log(high / low), 1e-9)
        return np.where(self.planes < low, 0, steps.round()).astype(np.uint8)


def span(values: Array) -> tuple[float, float]:
    """The values at the two ends of the colours."""
    high = float(values.max(initial=0.0)) or 1.0
    least = float(values[values > 0].min(initial=high))
    return max(least / 2, high / SPAN) * (1 - 1e-6), high  # the least value differs from zero


def influence_view(
    scene: Scene, rows_of: Callable[[list[int]], Array], node: int, layer: int | None, head: int | None
) -> View:
    """A view of a model's mixers.

    Args:
        scene: the nodes.
        rows_of: for K nodes their rows in each layer and head, ``[layers, heads, K, T]``.
        node: the node to show first.
        layer: the layer to show first; the mean over all if omitted.
        head: the head to show first; the mean over all if omitted.
    """
    layers, heads = rows_of([node]).shape[:2]
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 0 <= number < count:
            raise ValueError(f"--{name} is from 0 to {count - 1} in this model, found {number}")
    nodes = _included(len(scene.labels), (layers + 1) * (heads + 1), node)
    rows = rows_of(nodes.tolist())
    rows = np.concatenate([rows.mean(0, keepdims=True), rows])
    rows = np.concatenate([rows.mean(1, keepdims=True), rows], axis=1)
    chosen = (0 if layer is None else layer + 1, 0 if head is None else head + 1)
    menus = ("layer", _choices(layers)), ("head", _choices(heads))
    note = f"Too large for all rows: {len(nodes)} of {len(scene.labels)} {scene.node}s, evenly spaced, can be selected."
    return View(scene, rows, menus, nodes, chosen, node, "" if len(nodes) == len(scene.labels) else note)


def _choices(count: int) -> list[str]:
    return ["mean", *map(str, range(count))]


def _included(count: int, planes: int, node: int) -> Array:
    """Nodes whose rows fit into a page, including the given one."""
    most = min(count, max(MIN_NODES, MAX_BYTES // (planes * count)))
    nodes = np.linspace(0, count - 1, most).round().astype(int)
    nodes[np.abs(nodes - node).argmin()] = node
    return nodes
