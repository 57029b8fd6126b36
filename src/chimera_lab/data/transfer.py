"""Graph transfer: rings, crossed rings and lollipops whose label is the colour of a node at a known distance.

The shapes are those of di Giovanni et al. (2023), "On Over-Squashing in Message Passing Neural Networks": on crossed
rings there are many shortest paths, on lollipops most edges lead away from the source. There all other nodes have the
same features; here they have colours as well, so that a model must also know which node to ask.
"""

from __future__ import annotations

import re

import numpy as np
import torch

from chimera_lab.data.graph_store import GraphSample, GraphStore
from chimera_lab.data.random import generator

Array = np.ndarray

COLOURS = 4
SOURCE, QUERY = 1, 2
#: Graphs of each shape.
TRAIN, TEST = 2048, 512
NAMES = "rings", "crossed-rings", "lollipops"


def transfer(name: str) -> tuple[GraphStore, GraphStore]:
    """Training and test graphs.

    Args:
        name: ``rings:LOW-HIGH`` for distances from LOW to HIGH, equally frequent, or ``rings:DISTANCE``; likewise
            ``crossed-rings``, ``lollipops``, and ``transfer`` for the graphs of all three.
    """
    found = re.fullmatch(rf"({'|'.join((*NAMES, 'transfer'))}):(\d+)(?:-(\d+))?", name)
    low, high = (int(found[2]), int(found[3] or found[2])) if found else (0, 0)
    shape = found[1] if found else ""
    least = 1 if shape == "rings" else 2
    if not least <= low <= high:
        raise ValueError(
            f"rings are named rings:DISTANCE or rings:LOW-HIGH, from 1 on, as in rings:1-16, and crossed-rings, "
            f"lollipops and transfer likewise, from 2 on; found {name!r}"
        )
    distances = range(low, high + 1)
    shapes = NAMES if shape == "transfer" else (shape,)
    train, test = (
        GraphStore.of(
            [
                coloured(shape, distances[k % len(distances)], generator(shape.removesuffix("s"), part, k))
                for shape in shapes
                for k in range(count)
            ]
        )
        for part, count in (("train", TRAIN), ("test", TEST))
    )
    return train, test


def coloured(shape: str, distance: int, draw: torch.Generator) -> GraphSample:
    """A graph of ``2 · distance`` coloured nodes, or one less, with a source and, ``distance`` hops away, a query.

    Features of a node are its colour and its role. Only the query has a label, the colour of the source, so that a
    model must transport information over ``distance`` hops.
    """
    size = 2 * distance - (shape == "lollipops")
    colour = torch.randint(COLOURS, (size,), generator=draw).numpy()
    role, y = np.zeros(size, np.int64), np.full(size, -1)
    source = int(torch.randint(size, (), generator=draw))
    query = (source + (1 if shape == "lollipops" else distance)) % size
    role[source], role[query], y[query] = SOURCE, QUERY, colour[source]
    edges = {"rings": ring, "crossed-rings": crossed_ring, "lollipops": lollipop}[shape](distance, source)
    return GraphSample(np.stack([colour, role], axis=1), edges, None, y)


def ring(distance: int, source: int) -> Array:
    """Edges ``[2, E]`` of a ring of ``2 · distance`` nodes, the same for every source."""
    size = 2 * distance
    nodes = np.arange(size)
    ends = np.stack([nodes, (nodes + 1) % size])
    return ends if size == 2 else _both_ways(ends)


def crossed_ring(distance: int, source: int) -> Array:
    """A ring in which both nodes k hops from the source are joined to both that are k + 1 hops from it, 0 < k < d − 1.

    The node opposite to the source remains d = ``distance`` hops away, with 2^(d−1) shortest paths instead of two.
    """
    size, hops = 2 * distance, np.arange(1, distance - 1)
    crosses = np.stack([np.concatenate([hops, size - hops]), np.concatenate([size - hops - 1, hops + 1])])
    return np.concatenate([ring(distance, source), _both_ways(crosses + source) % size], axis=1)


def lollipop(distance: int, source: int) -> Array:
    """A path that begins at the source and ends in a clique of ``distance`` nodes, ``2 · distance − 1`` in all.

    The node numbered after the source, one of the clique but not the end of the path, is ``distance`` hops away.
    """
    clique = np.stack(np.triu_indices(distance, 1))
    path = np.arange(distance - 1, 2 * distance - 2)
    ends = np.concatenate([clique, np.stack([path, path + 1])], axis=1)
    return (_both_ways(ends) + source + 1) % (2 * distance - 1)


def _both_ways(ends: Array) -> Array:
    return np.concatenate([ends, ends[::-1]], axis=1)
