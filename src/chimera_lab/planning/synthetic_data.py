"""Synthetic data in place of data sets that must be downloaded: as many samples of the same sizes, without content."""

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
from chimera_lab.data.text import Masked, NextWords
from chimera_lab.training.kinds import create_task
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Task


@dataclass(frozen=True)
class GraphStatistics:
    """Published statistics of a data set: training graphs, mean nodes and directed edges, kind and number of labels."""

    count: int
    nodes: int
    edges: int
    problem: str
    labels: int


#: Number of training images and of classes.
IMAGES = {"imagenet": (1_281_167, 1000)}

#: Vocabulary sizes of named tokenizers.
VOCABULARIES = {"bert-base-uncased": 30_522}

GRAPHS = {
    "peptides-func": GraphStatistics(10_873, 151, 308, LABELS, 10),
    "peptides-struct": GraphStatistics(10_873, 151, 308, REGRESSION, 11),
    "pascalvoc-sp": GraphStatistics(8_498, 479, 2_710, CLASSES, 21),
    "coco-sp": GraphStatistics(113_286, 477, 2_694, CLASSES, 81),
}


def task_without_data(recipe: Recipe) -> Task:
    """The task of a recipe; data sets that must be downloaded are replaced by synthetic data, others are read."""
    task: Any = create_task(recipe)
    if recipe.kind == "image" and recipe.data in IMAGES:
        task.images = _images(*IMAGES[recipe.data], size=task.recipe.image_size, channels=task.recipe.num_channels)
    elif (
        recipe.kind in ("text", "causal")
        and task.recipe.tokenizer in VOCABULARIES
        and task.recipe.max_tokens is not None
    ):
        task.text = _text(task.recipe.max_tokens, task.recipe.length, VOCABULARIES[task.recipe.tokenizer])
    elif recipe.kind == "graph" and recipe.data in GRAPHS:
        task.graphs = _graphs(GRAPHS[recipe.data])
    return task


def _images(count: int, classes: int, size: int, channels: int) -> ImageData:
    blank = torch.zeros(channels, size, size, dtype=torch.uint8)
    images = Images(torch.arange(count) % classes, lambda index: blank, lambda index: b"")
    return ImageData(images, images, tuple(map(str, range(classes))))


class _Tokenizer:
    """The part of a tokenizer that masking and models use."""

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
    """The part of `TextData` that training uses."""

    train: Samples
    test: Samples
    tokenizer: _Tokenizer

    def masked(self, part: Samples, rate: float) -> Samples:
        return Masked(part, self.tokenizer, rate)

    def next_words(self, part: Samples) -> Samples:
        return NextWords(part, self.tokenizer)


def _text(tokens: int, length: int, words: int) -> _Text:
    blocks = _Blocks(tokens // (length - 2), length, words)
    return _Text(blocks, blocks, _Tokenizer(words))


def _graphs(statistics: GraphStatistics) -> GraphData:
    molecular = statistics.problem != CLASSES
    edges = _molecule(statistics) if molecular else _planar(statistics)
    node_values, edge_values = feature_values() if molecular else (14, 2)
    labels: np.ndarray = (
        np.zeros(statistics.nodes, np.int64) if statistics.problem == CLASSES else np.zeros((1, statistics.labels))
    )
    graph = GraphSample(_features(statistics.nodes, node_values), edges, _features(edges.shape[1], edge_values), labels)
    samples = Part(GraphStore.of([graph]), torch.zeros(statistics.count, dtype=torch.int64))
    level = "graph" if molecular else "node"
    return GraphData(samples, samples, samples, node_values, edge_values, level, statistics.problem, statistics.labels)


def _features(rows: int, values: int | list[int]) -> np.ndarray:
    return np.zeros((rows, values), np.float32) if isinstance(values, int) else np.zeros((rows, len(values)), np.int64)


def _molecule(statistics: GraphStatistics) -> np.ndarray:
    """A chain with rings of six nodes, as many as the number of edges requires."""
    rings = statistics.edges // 2 - (statistics.nodes - 1)
    starts = np.linspace(0, statistics.nodes - 6, rings).astype(int)
    bonds = [(k, k + 1) for k in range(statistics.nodes - 1)] + [(k, k + 5) for k in starts.tolist()]
    return _both_ways(np.array(bonds))


def _planar(statistics: GraphStatistics) -> np.ndarray:
    """A triangulation of random points, without some of its edges."""
    from scipy.spatial import Delaunay

    draw = np.random.default_rng(0)
    triangles = Delaunay(draw.random((statistics.nodes, 2))).simplices
    sides = np.unique(np.sort(np.concatenate([triangles[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))])), axis=0)
    kept = draw.permutation(len(sides))[: statistics.edges // 2]
    return _both_ways(sides[np.sort(kept)])


def _both_ways(pairs: np.ndarray) -> np.ndarray:
    return np.concatenate([pairs, pairs[:, ::-1]]).T.astype(np.int64)
