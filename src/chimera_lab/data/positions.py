"""Where a node is in its graph: return probabilities of random walks and eigenvectors of the Laplacian."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from chimera_lab.data.cache import cached_value
from chimera_lab.data.progress import each

if TYPE_CHECKING:
    from pathlib import Path

    from chimera_lab.data.graph_store import GraphStore

Array = np.ndarray

#: Of the files; those of other formats are not looked at.
_FORMAT = 1
#: Nodes up to which a graph's eigenvectors are computed, all of them, from a dense matrix.
_MOST = 8192


def positions(edge_index: Array, num_nodes: int, walks: int, eigenvectors: int) -> Array:
    """Position encodings of the nodes of a graph, whose directions are forgotten.

    With S = D^(−1/2) A D^(−1/2) = U Λ Uᵀ, and P = D⁻¹ A:

        (P^k)_ii = Σ_m U_im² λ_m^k        for k = 1 … walks, the probability that a walk of k steps returns
        U_im                              for the largest λ_m but the first: the smallest of the Laplacian I − S

    Args:
        edge_index: source and target of each edge, ``[2, E]``; self-loops are left out.
        num_nodes: T.
        walks: number of return probabilities.
        eigenvectors: number of eigenvectors, each of either sign; zeros stand for those that a small graph has not.

    Returns:
        ``[T, walks + eigenvectors]``, float32.
    """
    if num_nodes > _MOST:
        raise ValueError(
            f"position encodings are computed for graphs of up to {_MOST:,} nodes, found {num_nodes:,}; compute them "
            "with PyG's AddRandomWalkPE or AddLaplacianEigenvectorPE and pass them to the model as positions"
        )
    A = np.zeros((num_nodes, num_nodes))
    source, target = edge_index
    A[source, target] = A[target, source] = 1
    np.fill_diagonal(A, 0)
    scale = 1 / np.sqrt(np.maximum(A.sum(0), 1))
    values, vectors = np.linalg.eigh(scale[:, None] * A * scale)
    powers = values[:, None] ** np.arange(1, walks + 1)
    smooth = vectors[:, ::-1][:, 1 : eigenvectors + 1]
    missing = eigenvectors - smooth.shape[1]
    return np.hstack([vectors**2 @ powers, np.pad(smooth, ((0, 0), (0, missing)))]).astype(np.float32)


def add_positions(store: GraphStore, walks: int, eigenvectors: int) -> None:
    """Give the graphs of a store their position encodings, from the cache if they were computed before."""
    edges = blake2b(b"".join(store.arrays[name].tobytes() for name in ("nodes", "edges", "edge_index"))).hexdigest()
    store.arrays["positions"] = cached_value(
        "graphs/positions.npy",
        (_FORMAT, edges, walks, eigenvectors),
        lambda: _of_all(store, walks, eigenvectors),
        _save,
        lambda path: np.load(path, allow_pickle=False),
    )


def _save(positions: Array, path: Path) -> None:
    with path.open("wb") as file:  # NumPy appends .npy to names, not to open files
        np.save(file, positions)


def _of_all(store: GraphStore, walks: int, eigenvectors: int) -> Array:
    """The positions of all nodes of a store, one graph after the other."""
    with each(range(len(store)), f"computing positions in {len(store):,} graphs") as numbers:
        return np.concatenate([_of(store, n, walks, eigenvectors) for n in numbers])


def _of(store: GraphStore, index: int, walks: int, eigenvectors: int) -> Array:
    edges = store.arrays["edge_index"][:, store.edges[index] : store.edges[index + 1]]
    return positions(edges, int(store.arrays["nodes"][index]), walks, eigenvectors)
