"""Data that are not here, for counting: as many samples of the same sizes, with nothing in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chimera_lab.data.graph_data import GraphData
from chimera_lab.data.graph_store import GraphSample, GraphStore
from chimera_lab.data.image import ImageData, Images
from chimera_lab.data.molecules import CLASSES, LABELS, REGRESSION, feature_values
from chimera_lab.data.samples import Part, Samples
from chimera_lab.training.kinds import create_task
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Task


@dataclass(frozen=True)
class Graphs:
    """What the benchmark says of a data set: training graphs, mean nodes and directed edges, labels."""

    count: int
    nodes: int
    edges: int
    problem: str
    labels: int


#: Training images and classes.
IMAGES = {"imagenet": (1_281_167, 1000)}

#: Words of the vocabulary that comes with a tokenizer's name.
VOCABULARIES = {"bert-base-uncased": 30_522}

GRAPHS = {
    "peptides-func": Graphs(10_873, 151, 308, LABELS, 10),
    "peptides-struct": Graphs(10_873, 151, 308, REGRESSION, 11),
    "pascalvoc-sp": Graphs(8_498, 479, 2_710, CLASSES, 21),
    "coco-sp": Graphs(113_286, 477, 2_694, CLASSES, 81),
}


def task_without_data(recipe: Recipe) -> Task:
    """The task of a recipe; data sets that one has to fetch are replaced by stand-ins, others are read."""
    task: Any = create_task(recipe)
    if recipe.kind == "image" and recipe.data in IMAGES:
        task.images = _images(*IMAGES[recipe.data], size=task.recipe.image_size, channels=task.recipe.num_channels)
    elif recipe.kind == "text" and task.recipe.tokenizer in VOCABULARIES and task.recipe.max_tokens is not None:
        task.text = _text(task.recipe.max_tokens, task.recipe.length, VOCABULARIES[task.recipe.tokenizer])
    elif recipe.kind == "graph" and recipe.data in GRAPHS:
        task.graphs = _graphs(GRAPHS[recipe.data])
    return task


def _images(count: int, classes: int, size: int, channels: int) -> ImageData:
    blank = torch.zeros(channels, size, size, dtype=torch.uint8)
    images = Images(torch.arange(count) % classes, lambda index: blank, lambda index: b"")
    return ImageData(images, images, tuple(map(str, range(classes))))


class _Words:
    """As much of a tokenizer as masking and models look at."""

    pad_token_id, cls_token_id, sep_token_id, mask_token_id = 0, 1, 2, 3
    all_special_ids = [0, 1, 2, 3]  # noqa: RUF012

    def __init__(self, words: int):
        self.words = words

    def __len__(self) -> int:
        return self.words


class _Blocks(Samples):
    def __init__(self, count: int, length: int, words: int):
        self.count, self.length, self.words = count, length, words

    def __len__(self) -> int:
        return self.count

    def sample(self, index: int) -> Tensor:
        return torch.randint(4, self.words, (self.length,))


class _Text(NamedTuple):
    """As much of `TextData` as training looks at."""

    train: Samples
    test: Samples
    tokenizer: _Words


def _text(tokens: int, length: int, words: int) -> _Text:
    blocks = _Blocks(tokens // (length - 2), length, words)
    return _Text(blocks, blocks, _Words(words))


def _graphs(facts: Graphs) -> GraphData:
    molecular = facts.problem != CLASSES
    edges = _molecule(facts) if molecular else _planar(facts)
    node_values, edge_values = feature_values() if molecular else (14, 2)
    labels: np.ndarray = np.zeros(facts.nodes, np.int64) if facts.problem == CLASSES else np.zeros((1, facts.labels))
    graph = GraphSample(_features(facts.nodes, node_values), edges, _features(edges.shape[1], edge_values), labels)
    samples = Part(GraphStore.of([graph]), torch.zeros(facts.count, dtype=torch.int64))
    level = "graph" if molecular else "node"
    return GraphData(samples, samples, samples, node_values, edge_values, level, facts.problem, facts.labels)


def _features(rows: int, values: int | list[int]) -> np.ndarray:
    return np.zeros((rows, values), np.float32) if isinstance(values, int) else np.zeros((rows, len(values)), np.int64)


def _molecule(facts: Graphs) -> np.ndarray:
    """A chain with rings of six along it, as many as there are bonds left."""
    rings = facts.edges // 2 - (facts.nodes - 1)
    starts = np.linspace(0, facts.nodes - 6, rings).astype(int)
    bonds = [(k, k + 1) for k in range(facts.nodes - 1)] + [(k, k + 5) for k in starts.tolist()]
    return _both_ways(np.array(bonds))


def _planar(facts: Graphs) -> np.ndarray:
    """A triangulation of random points, less some edges."""
    from scipy.spatial import Delaunay

    draw = np.random.default_rng(0)
    triangles = Delaunay(draw.random((facts.nodes, 2))).simplices
    sides = np.unique(np.sort(np.concatenate([triangles[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))])), axis=0)
    kept = draw.permutation(len(sides))[: facts.edges // 2]
    return _both_ways(sides[np.sort(kept)])


def _both_ways(pairs: np.ndarray) -> np.ndarray:
    return np.concatenate([pairs, pairs[:, ::-1]]).T.astype(np.int64)
