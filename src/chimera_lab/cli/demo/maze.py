"""The demo's picture: what influences one cell of a maze, in each model, before and after training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_lab.cli.demo.comparisons import IDENTITY, OURS
from chimera_lab.cli.demo.predictions import image_model
from chimera_lab.data.mazes import connected_regions
from chimera_lab.data.random import seeded
from chimera_lab.data.samples import Samples
from chimera_lab.training.image_task import ImageTask
from chimera_lab.training.kinds import create_task
from chimera_lab.training.run import Run
from chimera_ssm.nn import influence

Array = np.ndarray

#: Test mazes among which the pictured one is chosen, training mazes by which a head is chosen, test mazes to measure.
_CANDIDATES, _CHOOSING, _MEASURING = 200, 40, 100
#: Cells of a large region.
_LARGE = 20


@dataclass(frozen=True)
class Maze:
    """A maze with its marked cells; cells are numbered row by row.

    Attributes:
        number: in its data set.
        pixels: the input of the models, ``[3, size, size]``.
        free: whether each cell is free, ``[T]``.
        marked: the two marked cells; influence is on the first.
        region: whether a path connects each cell with the first marked one, ``[T]``.
    """

    number: int
    pixels: Tensor
    free: Array
    marked: tuple[int, int]
    region: Array

    @property
    def connected(self) -> bool:
        """The true answer."""
        return bool(self.region[self.marked[1]])

    @property
    def size(self) -> int:
        """Cells in a row."""
        return self.pixels.shape[-1]


@dataclass(frozen=True)
class Panel:
    """One picture: the influence on the first marked cell.

    Attributes:
        title: the model.
        layer: the number of the layer.
        head: the number of the head.
        shares: the share of each cell in the influence on the marked one, ``[T]``, which sum to one.
        separation: how well influence tells connected cells from others, see `separation`, over test mazes.
        answer: the model's answer with its probability; empty before training.
    """

    title: str
    layer: int
    head: int
    shares: Array
    separation: float
    answer: str


def panels(runs: Mapping[str, Run], baseline: str) -> tuple[Maze, list[Panel]]:
    """A test maze, and what influences its marked cell in Chimera before and after training, with L = I, and in ViT."""
    task = create_task(runs[OURS].recipe)
    assert isinstance(task, ImageTask)
    train, test = task.plain_train_samples(), task.test_samples()
    maze = pictured([read(test, k) for k in range(min(_CANDIDATES, len(test)))])
    choosing = [read(train, k) for k in range(min(_CHOOSING, len(train)))]
    measuring = [read(test, k) for k in range(min(_MEASURING, len(test)))]
    with seeded(runs[OURS].recipe.seed, "weights"):  # as training does
        untrained = task.build_model(task.recipe).eval()
    models = {name: image_model(run) for name, run in runs.items()}
    found = [_panel(f"{OURS} before training", resolvent_rows(untrained), choosing, measuring, maze)]
    for name, title in ((OURS, f"{OURS} after training"), (IDENTITY, IDENTITY), (baseline, f"{baseline}'s attention")):
        rows = attention_rows(models[name]) if name == baseline else resolvent_rows(models[name])
        found.append(_panel(title, rows, choosing, measuring, maze, _answer(models[name], maze)))
    return maze, found


def read(samples: Samples, number: int) -> Maze:
    """A maze of a data set, from its normalised pixels: black walls, white free cells, two red ones."""
    pixels = samples.sample(number)["pixel_values"]
    red, green = pixels[0] > 0, pixels[1] > 0
    first, second = (red & ~green).flatten().nonzero().flatten().tolist()
    regions = connected_regions(red[None])[0].flatten().numpy()
    return Maze(number, pixels, red.flatten().numpy(), (first, second), regions == regions[first])


def pictured(mazes: list[Maze]) -> Maze:
    """The first maze whose marked cells are in two large regions, so that both can be seen; or the first of all."""

    def clear(maze: Maze) -> bool:
        labels = connected_regions(torch.from_numpy(maze.free).view(1, maze.size, maze.size)).flatten().numpy()
        return not maze.connected and min(int((labels == labels[cell]).sum()) for cell in maze.marked) >= _LARGE

    return next(filter(clear, mazes), mazes[0])


#: For a maze its influence on the first marked cell, a row for each layer and head, ``[layers, heads, T]``.
Rows = Callable[[Maze], Array]


def resolvent_rows(model: Any) -> Rows:
    """Rows of the resolvents of a model with `Chimera` mixers."""

    def rows(maze: Maze) -> Array:
        found = influence(model, maze.marked[0], pixel_values=maze.pixels[None])
        return torch.stack([layer[0] for layer in found]).numpy()

    return rows


def attention_rows(model: Any) -> Rows:
    """Rows of the attention of a Vision Transformer, among the patches."""
    model.set_attn_implementation("eager")  # others do not return the weights

    def rows(maze: Maze) -> Array:
        with torch.inference_mode():
            layers = model(pixel_values=maze.pixels[None], output_attentions=True).attentions
        return torch.stack([layer[0, :, 1 + maze.marked[0], 1:] for layer in layers]).numpy()  # 0 is the class token

    return rows


def separation(row: Array, maze: Maze) -> float | None:
    """The probability that a connected cell has more influence than a free cell that is not; ties count half.

    ``None`` if there is no such pair of cells.
    """
    others = np.arange(len(row)) != maze.marked[0]
    inside, outside = row[maze.region & others], row[maze.free & ~maze.region]
    if not len(inside) or not len(outside):
        return None
    difference = inside[:, None] - outside
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def _panel(title: str, rows: Rows, choosing: list[Maze], measuring: list[Maze], maze: Maze, answer: str = "") -> Panel:
    """The layer and head that separates training mazes best, measured on test mazes."""
    scores = np.mean([s for each in choosing if (s := _scores(rows(each), each)) is not None], axis=0)
    layer, head = np.unravel_index(scores.argmax(), scores.shape)
    measured = [s for each in measuring if (s := separation(rows(each)[layer, head], each)) is not None]
    row = rows(maze)[layer, head]
    return Panel(title, int(layer), int(head), row / row.sum(), float(np.mean(measured)), answer)


def _scores(rows: Array, maze: Maze) -> Array | None:
    """The separation of each layer and head."""
    scores = [[separation(row, maze) for row in layer] for layer in rows]
    return None if scores[0][0] is None else np.array(scores, float)


def _answer(model: Any, maze: Maze) -> str:
    with torch.inference_mode():
        probability = float(model(pixel_values=maze.pixels[None]).logits[0].softmax(0)[1])
    word, sure = ("connected", probability) if probability > 0.5 else ("not connected", 1 - probability)
    return f"{word} ({sure:.0%})"
