"""Rings whose label depends on a node at a known distance."""

from __future__ import annotations

import re

import numpy as np
import torch

from chimera_lab.data.graph_store import GraphSample, GraphStore
from chimera_lab.data.random import generator

COLOURS = 4
SOURCE, QUERY = 1, 2
TRAIN, TEST = 2048, 512


def rings(name: str) -> tuple[GraphStore, GraphStore]:
    """Training and test rings.

    Args:
        name: ``rings:LOW-HIGH`` for distances from LOW to HIGH, equally frequent, or ``rings:DISTANCE``.
    """
    found = re.fullmatch(r"rings:(\d+)(?:-(\d+))?", name)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high:
        raise ValueError(
            f"rings are named rings:DISTANCE or rings:LOW-HIGH, from 1 on, as in rings:1-16; found {name!r}"
        )
    distances = range(low, high + 1)
    train, test = (
        GraphStore.of([ring(distances[k % len(distances)], generator("ring", part, k)) for k in range(count)])
        for part, count in (("train", TRAIN), ("test", TEST))
    )
    return train, test


def ring(distance: int, draw: torch.Generator) -> GraphSample:
    """A ring of ``2 · distance`` coloured nodes with a source and, opposite to it, a query.

    Features of a node are its colour and its role. Only the query has a label, the colour of the source, so that a
    model must transport information over ``distance`` hops.
    """
    size = 2 * distance
    colour = torch.randint(COLOURS, (size,), generator=draw).numpy()
    role, y = np.zeros(size, np.int64), np.full(size, -1)
    source = int(torch.randint(size, (), generator=draw))
    other = (source + distance) % size
    role[source], role[other], y[other] = SOURCE, QUERY, colour[source]
    nodes = np.arange(size)
    ends = np.stack([nodes, (nodes + 1) % size])
    edges = ends if size == 2 else np.concatenate([ends, ends[::-1]], axis=1)
    return GraphSample(np.stack([colour, role], axis=1), edges, None, y)
