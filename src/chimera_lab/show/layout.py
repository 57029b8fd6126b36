"""Places for the nodes of a graph on a page."""

from __future__ import annotations

import numpy as np

from chimera_ssm.topology import traversal

Array = np.ndarray
_ROUNDS = 200


def place(num_nodes: int, edges: Array) -> Array:
    """Coordinates ``[T, 2]`` whose distances approximate those in the graph (stress majorisation, SMACOF).

    Args:
        num_nodes: T.
        edges: ``[2, E]``; directions do not matter.
    """
    source, target = np.concatenate([edges, edges[::-1]], axis=1)
    steps = np.stack([traversal.distances(num_nodes, source, target, np.array([k])) for k in range(num_nodes)])
    wanted = np.where(steps < 0, steps.max() + 2, steps).astype(float)
    places = _first_guess(wanted)
    weight = 1 / np.maximum(wanted, 1) ** 2
    np.fill_diagonal(weight, 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_ROUNDS if num_nodes > 1 else 0):
        apart = np.linalg.norm(places[:, None] - places, axis=2)
        pull = -weight * wanted / np.maximum(apart, 1e-9)
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(1))
        places = inverse @ (pull @ places)
    return _upright(places)


def _first_guess(wanted: Array) -> Array:
    """Classical scaling, plus a small circle that separates nodes with equal coordinates."""
    centring = np.eye(len(wanted)) - 1 / len(wanted)
    values, vectors = np.linalg.eigh(-centring @ wanted**2 @ centring / 2)
    plane = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    angle = 2 * np.pi * np.arange(len(wanted)) / len(wanted)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return 1e-2 * circle + (plane if len(wanted) > 1 else 0)


def _upright(places: Array) -> Array:
    """Rotate the longest extent to the horizontal axis."""
    centred = places - places.mean(0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2].T if len(places) > 2 else centred
