"""Position encodings against powers of the walk's matrix and the Laplacian, dense float64."""

from __future__ import annotations

import numpy as np
import pytest

from chimera_lab.data import positions as module
from chimera_lab.data.graph_store import GraphSample, GraphStore
from chimera_lab.data.positions import add_positions, positions

PATH = np.array([[0, 1, 2, 2], [1, 2, 3, 2]])  # with a self-loop, and node 4 on its own


def adjacency(edges: np.ndarray, nodes: int) -> np.ndarray:
    A = np.zeros((nodes, nodes))
    A[edges[0], edges[1]] = A[edges[1], edges[0]] = 1
    np.fill_diagonal(A, 0)
    return A


@pytest.mark.parametrize("walks", [0, 1, 6])
def test_walks_are_powers(walks):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 9, (2, 12))
    for e, nodes in ((PATH, 5), (edges, 9), (np.empty((2, 0), int), 1)):
        A = adjacency(e, nodes)
        P = A / np.maximum(A.sum(1), 1)[:, None]
        expected = [np.diag(np.linalg.matrix_power(P, k)) for k in range(1, walks + 1)]
        found = positions(e, nodes, walks, 0)
        assert found.shape == (nodes, walks)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.T, np.array(expected).reshape(walks, nodes), atol=1e-6)


def test_eigenvectors_of_the_laplacian():
    A = adjacency(PATH, 5)
    degree = np.maximum(A.sum(0), 1)
    L = np.eye(5) - A / np.sqrt(degree[:, None] * degree)
    vectors = positions(PATH, 5, 2, 3)[:, 2:]
    values = np.linalg.eigvalsh(L)[1:4]
    np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-5)
    small = positions(PATH[:, :1], 2, 0, 4)
    assert small.shape == (2, 4)
    assert (small[:, 1:] == 0).all()


def store() -> GraphStore:
    graphs = [
        GraphSample(np.zeros((5, 1)), PATH, None, np.zeros((1, 1))),
        GraphSample(np.zeros((2, 1)), PATH[:, :1], None, np.ones((1, 1))),
    ]
    return GraphStore.of(graphs)


def test_positions_are_computed_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = store(), store()
    add_positions(first, 3, 2)
    np.testing.assert_array_equal(first.sample(0)["positions"], positions(PATH, 5, 3, 2))
    np.testing.assert_array_equal(first.sample(1)["positions"], positions(PATH[:, :1], 2, 3, 2))
    batch = first.collate([first.sample(0), first.sample(1)])
    assert batch["positions"].shape == (7, 5)
    monkeypatch.setattr(module, "positions", None)  # nothing is computed again
    add_positions(second, 3, 2)
    np.testing.assert_array_equal(first.arrays["positions"], second.arrays["positions"])


def test_positions_without_a_cache(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    kept = store()
    add_positions(kept, 3, 2)
    assert kept.arrays["positions"].shape == (7, 5)


def test_too_large_a_graph():
    with pytest.raises(ValueError, match=r"up to 8,192 nodes, found 10,000; .* AddRandomWalkPE"):
        positions(np.empty((2, 0), int), 10_000, 4, 0)
