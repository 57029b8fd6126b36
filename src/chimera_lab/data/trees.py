"""Tree-NeighborsMatch of Alon and Yahav (2021): the root has a key, each leaf a key and a value; which is the root's?

Trees are complete and binary, edges lead from children to parents, leaves have the keys in order and the values
in random order: as in their code. There a model is trained for each depth; here several depths can be mixed.
"""

from __future__ import annotations

import re

import numpy as np
import torch

from chimera_lab.data.graph_store import GraphSample, GraphStore
from chimera_lab.data.random import generator

#: Trees of each depth.
TRAIN, TEST = 8000, 500
DEEPEST = 8


def trees(name: str) -> tuple[GraphStore, GraphStore]:
    """Training and test trees. Test trees of depth 2, of which 96 exist, also occur in training.

    Args:
        name: ``trees:LOW-HIGH`` for depths from LOW to HIGH, equally frequent, or ``trees:DEPTH``.
    """
    found = re.fullmatch(r"trees:(\d+)(?:-(\d+))?", name)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high <= DEEPEST:
        raise ValueError(
            f"trees are named trees:DEPTH or trees:LOW-HIGH, with depths from 1 to {DEEPEST}, as in trees:2-5; "
            f"found {name!r}"
        )
    train, test = (
        GraphStore.of(
            [tree(depth, generator("tree", part, depth, k)) for depth in range(low, high + 1) for k in range(count)]
        )
        for part, count in (("train", TRAIN), ("test", TEST))
    )
    return train, test


def tree(depth: int, draw: torch.Generator) -> GraphSample:
    """A tree of ``2^(depth + 1) − 1`` nodes; node 0 is the root, and the leaves are last.

    Features of a node are its key and its value, 0 for none: leaf j has key j and value π(j), for a random permutation
    π of 1 … 2^depth, and the root a random key k. Only the root has a label, the class π(k) − 1.
    """
    leaves = 2**depth
    size = 2 * leaves - 1
    values = torch.randperm(leaves, generator=draw).numpy()
    key = int(torch.randint(leaves, (), generator=draw))
    x, y = np.zeros((size, 2), np.int64), np.full(size, -1)
    x[leaves - 1 :, 0], x[leaves - 1 :, 1] = np.arange(1, leaves + 1), values + 1
    x[0, 0], y[0] = key + 1, values[key]
    children = np.arange(1, size)
    return GraphSample(x, np.stack([children, (children - 1) // 2]), None, y)
