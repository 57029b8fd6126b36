"""A data set of graphs, and the facts from which a model for it is built."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from chimera_lab.data import molecules
from chimera_lab.data.graph_store import GraphStore
from chimera_lab.data.molecules import CLASSES, LABELS, REGRESSION
from chimera_lab.data.samples import Part, Samples, split

Array = np.ndarray


class GraphData(NamedTuple):
    """A data set of graphs, and the facts from which a model for it is built.

    Attributes:
        train: training samples.
        validation: validation samples; ``None`` if the data set has no such part.
        test: test samples.
        node_features: number of real features, or number of values of each integer feature.
        edge_features: the same for edges; ``None`` without edge features.
        level: ``"graph"`` or ``"node"``: what the labels belong to.
        problem_type: as in `transformers`.
        num_labels: number of classes or targets.
        label_mean: mean of a regression's targets in the training part.
        label_std: their standard deviation.
    """

    train: Samples
    validation: Samples | None
    test: Samples
    node_features: int | list[int]
    edge_features: int | list[int] | None
    level: str
    problem_type: str
    num_labels: int
    label_mean: list[float] | None = None
    label_std: list[float] | None = None


def describe(
    train: Samples,
    validation: Samples | None,
    test: Samples,
    problem: str,
    atoms: bool = False,
    standardise: bool = True,
) -> GraphData:
    """Derive the facts of a data set from its parts.

    Args:
        train: training samples.
        validation: validation samples, if there are any.
        test: test samples.
        problem: type of the labels.
        atoms: whether nodes and edges have ogb's features of atoms and bonds.
        standardise: whether to compute mean and standard deviation of a regression's targets.
    """
    stores = list({id(s): s for s in (store_of(p) for p in (train, validation, test) if p is not None)}.values())
    y = [store.arrays["y"] for store in stores]
    single = all((store.arrays["targets"] == 1).all() for store in stores)
    by_node = all(np.array_equal(s.arrays["targets"], s.arrays["nodes"]) for s in stores) and not single
    if not by_node and not single:
        raise ValueError("labels should be one row for each graph, or one for each node; found others")
    if problem == CLASSES and any(part.max() < 0 for part in y):
        raise ValueError("a part of the data has no labels: the class of every node is unknown")
    mean = std = None
    if problem == REGRESSION and standardise:
        known = _targets(train)
        if np.isnan(known).all(0).any():
            raise ValueError("a target has no label in the training part: all are missing")
        mean, std = np.nanmean(known, 0).tolist(), np.maximum(np.nanstd(known, 0), 1e-6).tolist()
    return GraphData(
        train,
        validation,
        test,
        node_features=molecules.feature_values()[0] if atoms else _features([s.arrays["x"] for s in stores]),
        edge_features=_edge_features(stores, atoms),
        level="node" if by_node else "graph",
        problem_type=problem,
        num_labels=int(max(part.max() for part in y)) + 1 if problem == CLASSES else y[0].shape[1],
        label_mean=mean,
        label_std=std,
    )


def _edge_features(stores: list[GraphStore], atoms: bool) -> int | list[int] | None:
    if "edge_attr" not in stores[0].arrays:
        return None
    return molecules.feature_values()[1] if atoms else _features([s.arrays["edge_attr"] for s in stores])


def _features(parts: list[Array]) -> int | list[int]:
    if not np.issubdtype(parts[0].dtype, np.integer):
        return parts[0].shape[1]
    return (np.max([part.max(0) for part in parts if len(part)], axis=0) + 1).tolist()


def _targets(samples: Samples) -> Array:
    """Labels of a part, a row for each of its graphs or nodes, ``[n, targets]``."""
    store = store_of(samples)
    if not isinstance(samples, Part):
        return store.arrays["y"]
    return np.concatenate([store.arrays["y"][store.targets[n] : store.targets[n + 1]] for n in samples.indices])


def store_of(samples: Samples) -> GraphStore:
    """The store that samples are taken from."""
    store = samples.whole if isinstance(samples, Part) else samples
    assert isinstance(store, GraphStore)
    return store


def describe_whole(store: GraphStore, problem: str, undivided: bool, atoms: bool = True) -> GraphData:
    """A data set without a split: a fixed fifth is for testing, or everything if ``undivided``."""
    if undivided:
        return describe(store, None, store, problem, atoms, standardise=False)
    if len(store) < 2:
        raise ValueError("there is a single graph: too few to keep some for testing")
    test, train = split(store, max(1, len(store) // 5), "test")
    return describe(train, None, test, problem, atoms)


def infer_problem(store: GraphStore) -> str:
    """The type of the labels: classes if they are integers, several labels if all are 0 or 1."""
    y = store.arrays["y"]
    if y.ndim == 1 and np.issubdtype(y.dtype, np.integer):
        return CLASSES
    known = y[~np.isnan(y.astype(float))]
    return LABELS if y.shape[1] > 1 and np.isin(known, (0, 1)).all() else REGRESSION


def check_problem(data: str | Path, found: str, expected: str | None) -> None:
    """Refuse labels of another type than expected."""
    if expected not in (None, found):
        raise ValueError(
            f"the labels of {data} are for {found}, and the recipe is for {expected}; choose other data or another "
            f"recipe, or set --problem {found}"
        )
