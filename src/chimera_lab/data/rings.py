"""Messages carried across rings: a task with a known answer at a known distance."""

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
    """Rings to learn from, and others to be judged on.

    Args:
        name: ``rings:LOW-HIGH`` for distances from LOW to HIGH, each as often as the others, or ``rings:DISTANCE``.
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
    """A ring of ``2 · distance`` coloured nodes: one speaks, and the one opposite asks what colour that is.

    Features of a node are its colour and whether it speaks or asks; the one that asks has a label, no other. The answer
    is within reach of layers that hear from ``distance`` hops away, and of no others.
    """
    size = 2 * distance
    colour = torch.randint(COLOURS, (size,), generator=draw).numpy()
    role, y = np.zeros(size, np.int64), np.full(size, -1)
    speaker = int(torch.randint(size, (), generator=draw))
    other = (speaker + distance) % size
    role[speaker], role[other], y[other] = SOURCE, QUERY, colour[speaker]
    nodes = np.arange(size)
    ends = np.stack([nodes, (nodes + 1) % size])
    edges = ends if size == 2 else np.concatenate([ends, ends[::-1]], axis=1)
    return GraphSample(np.stack([colour, role], axis=1), edges, None, y)
