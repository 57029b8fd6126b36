"""Labelled graphs: rdkit's molecules, the Long Range Graph Benchmark, csv files of molecules, data sets of PyG."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from chimera_lab.data import molecules
from chimera_lab.data.cache import cache_folder, content_digest, plain_name
from chimera_lab.data.files import reason
from chimera_lab.data.graph_store import GraphSample, GraphStore, cached_store
from chimera_lab.data.molecules import CLASSES, LABELS, REGRESSION
from chimera_lab.data.positions import add_positions
from chimera_lab.data.progress import each
from chimera_lab.data.rings import rings
from chimera_lab.data.samples import Part, Samples, split
from chimera_lab.data.superpixels import superpixels

Array = np.ndarray

_PARTS = "train", "val", "test"
#: The Long Range Graph Benchmark, and what its labels are.
LRGB = {"peptides-func": LABELS, "peptides-struct": REGRESSION, "pascalvoc-sp": CLASSES, "coco-sp": CLASSES}


class GraphData(NamedTuple):
    """A data set of graphs, and what a model must know of it.

    Attributes:
        train: to learn from.
        validation: to choose by; ``None`` where the data set has no such part.
        test: to be judged on.
        node_features: number of real features, or values of each integer feature.
        edge_features: the same for edges, ``None`` where they have none.
        level: ``"graph"`` or ``"node"``: what has labels.
        problem_type: as in `transformers`.
        num_labels: classes, or targets.
        label_mean: of a regression's targets in the training part.
        label_std: the same.
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


def load_graphs(
    data: str,
    smiles: str = "smiles",
    targets: Sequence[str] = ("y",),
    problem: str | None = None,
    refuse: bool = True,
    walks: int = 0,
    eigenvectors: int = 0,
    segments: int = 300,
    undivided: bool = False,
) -> GraphData:
    """The data set of a name, or in a file or folder.

    Args:
        data: ``nci``; ``rings:LOW-HIGH`` and ``superpixels:FOLDER``, see the functions of these names; a name of the
            Long Range Graph Benchmark; a folder with the peptides' original files; a csv file of molecules, or a folder
            with train.csv and test.csv, and val.csv or not; or ``pyg:Class``, ``pyg:Class/name``, a data set of PyG.
        smiles: csv: name of the column of molecules.
        targets: csv: names of the columns of labels.
        problem: what the labels must be, see `GraphData`; by default what they are, and in csv files a regression's.
        refuse: csv: whether a molecule that cannot be read is an error; it is skipped and told of otherwise.
        walks: return probabilities of random walks that each sample comes with.
        eigenvectors: eigenvectors of the Laplacian that each sample comes with.
        segments: superpixels: regions of an image, about.
        undivided: to test a model that is trained already: data without parts are for testing as a whole, and mean and
            deviation of labels are not looked for.
    """
    path = Path(data).expanduser()
    if data == "nci":
        found = _whole(molecules.nci(), REGRESSION, undivided)
    elif data.startswith("rings:"):
        train, test = rings(data)
        found = _described(train, None, test, CLASSES)
    elif data.startswith("superpixels:"):
        train, test = superpixels(Path(data.removeprefix("superpixels:")).expanduser(), segments)
        found = _described(train, None, test, CLASSES)
    elif data.startswith("pyg:"):
        found = _pyg(data.removeprefix("pyg:"), undivided)
    elif data in LRGB and not path.is_dir():
        found = _lrgb(data, cache_folder() / "lrgb", problem)
    elif path.name in LRGB and any((path / made).is_dir() for made in ("raw", "processed")):
        found = _lrgb(path.name, path.parent, problem)
    elif path.is_dir() and any((path / files[0]).exists() for files in (_FUNCTION, _STRUCTURE)):
        found = _peptides(path, problem)
    elif path.exists():
        found = _csv(path, smiles, tuple(targets), problem or REGRESSION, refuse, undivided)
    else:
        raise ValueError(
            f"there is no data set, file or folder {data!r}; data is nci, rings:1-16, {', '.join(LRGB)}, "
            f"superpixels:FOLDER, pyg:Class/name, a csv file of molecules, or a folder with train.csv and test.csv or "
            f"with the peptides' original files"
        )
    _check_problem(data, found.problem_type, problem)
    if walks or eigenvectors:
        parts = [part for part in (found.train, found.validation, found.test) if part is not None]
        for store in {id(_store(part)): _store(part) for part in parts}.values():
            add_positions(store, walks, eigenvectors)
    return found


def _check_problem(data: str | Path, found: str, expected: str | None) -> None:
    if expected not in (None, found):
        raise ValueError(
            f"the labels of {data} are for {found}, and the recipe is for {expected}; choose other data or another "
            f"recipe, or set --problem {found}"
        )


_FUNCTION, _STRUCTURE = molecules.FUNCTION_FILES, molecules.STRUCTURE_FILES


# Molecules


def _peptides(folder: Path, problem: str | None) -> GraphData:
    """Of a folder with the files of both tasks, the one that the problem says."""
    there = [kind for kind, files in ((LABELS, _FUNCTION), (REGRESSION, _STRUCTURE)) if (folder / files[0]).exists()]
    if len(there) > 1 and problem not in there:
        raise ValueError(
            f"{folder} has the files of both Peptides-func and Peptides-struct; say which with --problem {LABELS} or "
            f"--problem {REGRESSION}"
        )
    kind = problem if problem in there else there[0]
    _check_problem(folder, kind, problem)
    store, parts = molecules.peptides(folder, structure=kind == REGRESSION)
    train, validation, test = (Part(store, torch.from_numpy(parts[name])) for name in _PARTS)
    return _described(train, validation, test, kind, atoms=True, standardise=False)


def _csv(path: Path, smiles: str, targets: tuple[str, ...], problem: str, refuse: bool, undivided: bool) -> GraphData:
    def read(file: Path) -> GraphStore:
        return molecules.csv_store(file, smiles, targets, problem, refuse)

    if path.is_file():
        return _whole(read(path), problem, undivided)
    files = {name: path / f"{name}.csv" for name in _PARTS}
    if not files["train"].is_file() or not files["test"].is_file():
        raise ValueError(f"{path} was looked at for train.csv and test.csv, or for the peptides' original files")
    validation = read(files["val"]) if files["val"].is_file() else None
    return _described(read(files["train"]), validation, read(files["test"]), problem, True, not undivided)


def _whole(store: GraphStore, problem: str, undivided: bool, atoms: bool = True) -> GraphData:
    """A data set without parts: a fixed fifth is for testing, or all."""
    if undivided:
        return _described(store, None, store, problem, atoms, standardise=False)
    if len(store) < 2:
        raise ValueError("there is a single graph: too few to keep some for testing")
    test, train = split(store, max(1, len(store) // 5), "test")
    return _described(train, None, test, problem, atoms)


# PyG


def _lrgb(name: str, root: Path, problem: str | None) -> GraphData:
    """PyG's files, in a folder of their name in ``root``."""
    from torch_geometric.datasets import LRGBDataset

    _check_problem(name, LRGB[name], problem)
    try:
        parts = [LRGBDataset(str(root), name, split=part) for part in _PARTS]
    except Exception as error:  # network and files: of many kinds
        files = " and ".join(_STRUCTURE if name.endswith("struct") else _FUNCTION)
        hint = f"; or name a folder with {files} with --data FOLDER" if name.startswith("peptides") else ""
        raise ValueError(
            f"{name} was looked for in {root} and could not be downloaded ({type(error).__name__}); put PyG's files of "
            f"LRGBDataset there{hint}"
        ) from error
    molecular = name.startswith("peptides")
    stores = [_kept(part, f"{name}-{word}") for part, word in zip(parts, _PARTS, strict=True)]
    return _described(stores[0], stores[1], stores[2], LRGB[name], atoms=molecular, standardise=False)


def _pyg(name: str, undivided: bool) -> GraphData:
    """Any data set of PyG: with parts of its own, with masks of nodes, or a fixed fifth for testing."""
    from torch_geometric import datasets

    kind, slash, which = name.partition("/")
    build = None if kind.startswith("_") else getattr(datasets, kind, None)
    if not callable(build):
        raise ValueError(f"PyG has no data set of the name {kind!r}; see torch_geometric.datasets")
    options: dict[str, Any] = {"name": plain_name(which, "a data set of PyG")} if slash else {}
    accepted = inspect.signature(build).parameters
    if "root" in accepted:
        options["root"] = str(cache_folder() / "pyg" / name)
    _check_options(kind, options, accepted)
    in_parts = "split" in accepted and accepted["split"].default == "train"
    try:
        sets = [build(**options, split=part) for part in _PARTS] if in_parts else [build(**options)]
    except Exception as error:  # network and files: of many kinds
        raise ValueError(
            f"PyG's {name} could not be loaded from {options.get('root', 'memory')}, nor downloaded "
            f"({type(error).__name__}: {reason(error)}); put its files there"
        ) from error
    if in_parts:
        stores = [_kept(part, f"{kind}-{word}") for part, word in zip(sets, _PARTS, strict=True)]
        return _described(stores[0], stores[1], stores[2], _problem(stores[0]))
    if len(sets[0]) == 1 and hasattr(sets[0][0], "train_mask"):
        return _of_masks(sets[0][0])
    store = _kept(sets[0], kind)
    return _whole(store, _problem(store), undivided, atoms=False)


def _check_options(kind: str, options: dict[str, Any], accepted: Mapping[str, inspect.Parameter]) -> None:
    """Refuse a data set that is not fully said by its class and name."""
    if "name" in options and "name" not in accepted:
        raise ValueError(f"PyG's {kind} has no data sets by name; write pyg:{kind}")
    needed = [p for p in accepted.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [p.name for p in needed if p.name not in options]
    if missing == ["name"]:
        raise ValueError(f"PyG's {kind} has several data sets; name one as pyg:{kind}/name")
    if missing:
        raise ValueError(f"PyG's {kind} needs {', '.join(missing)}, for which there is no setting; choose another")


def _kept(dataset: Any, name: str) -> GraphStore:
    """The graphs of a PyG data set, cached if it has files."""

    def make() -> GraphStore:
        with each(range(len(dataset)), f"reading {len(dataset):,} graphs of {name}") as numbers:
            return GraphStore.of(_item(dataset, number, name) for number in numbers)

    try:
        files = [Path(path) for path in dataset.processed_paths]
    except NotImplementedError:  # made in memory
        return make()
    return cached_store(name, repr((name, [content_digest(path) for path in files])).encode(), make)


def _item(dataset: Any, number: int, name: str) -> GraphSample:
    try:
        data = dataset[number]
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(
            f"graph {number} of PyG's {name} cannot be read: {reason(error)}; remove the files in {dataset.root}, they "
            f"will be made anew"
        ) from error
    return _of_data(data, f"graph {number} of PyG's {name}")


def _of_masks(data: Any) -> GraphData:
    """One graph whose nodes are divided: others' labels are hidden; where no mask is for testing, the rest is."""
    graph = _of_data(data, "the graph")
    if len(graph.y) != len(graph.x):
        raise ValueError(f"nodes divided by masks should each have a label, found {data!r}")
    masks = {part: data[f"{part}_mask"] for part in _PARTS if f"{part}_mask" in data}
    known = {part: (mask if mask.dim() == 1 else mask[:, 0]).numpy() for part, mask in masks.items()}
    known.setdefault("test", ~np.any([*known.values()], axis=0))
    stores = {part: GraphStore.of([graph._replace(y=_hidden(graph.y, ~mask))]) for part, mask in known.items()}
    return _described(stores["train"], stores.get("val"), stores["test"], _problem(stores["train"]))


def _hidden(y: Array, nodes: Array) -> Array:
    y = y.copy()
    y[nodes] = -1 if y.ndim == 1 else np.nan
    return y


def _of_data(data: Any, where: str) -> GraphSample:
    x, edge_index, y = _columns(_array(data, "x", where)), _array(data, "edge_index", where), _array(data, "y", where)
    edge_attr = None if getattr(data, "edge_attr", None) is None else _columns(_array(data, "edge_attr", where))
    if np.issubdtype(y.dtype, np.floating):
        of_nodes = y.ndim == 1 and len(y) == len(x)
        return GraphSample(x, edge_index, edge_attr, y if y.ndim > 1 else y.reshape((-1, 1) if of_nodes else (1, -1)))
    y = y.astype(np.int64) if y.dtype == bool else np.atleast_1d(y)
    if y.ndim > 1:  # a column is of classes, several are of labels
        y = y[:, 0] if y.shape[1] == 1 else y.astype(np.float32)
    return GraphSample(x, edge_index, edge_attr, y)


def _columns(features: Array) -> Array:
    return features[:, None] if features.ndim == 1 else features


def _array(data: Any, name: str, where: str) -> Array:
    value = getattr(data, name, None)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise ValueError(
            f"{where} should have tensors x, edge_index and y; found {type(data).__name__} with "
            f"{'no' if value is None else type(value).__name__} {name}; choose another data set"
        )
    return value.numpy()


def _problem(store: GraphStore) -> str:
    """What labels are, by their look: classes if they are whole, several labels if all are 0 or 1."""
    y = store.arrays["y"]
    if y.ndim == 1 and np.issubdtype(y.dtype, np.integer):
        return CLASSES
    known = y[~np.isnan(y.astype(float))]
    return LABELS if y.shape[1] > 1 and np.isin(known, (0, 1)).all() else REGRESSION


# What a model must know


def _described(
    train: Samples,
    validation: Samples | None,
    test: Samples,
    problem: str,
    atoms: bool = False,
    standardise: bool = True,
) -> GraphData:
    stores = list({id(s): s for s in (_store(p) for p in (train, validation, test) if p is not None)}.values())
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
    """Labels of a part, a row for each of its graphs, or of their nodes, ``[n, targets]``."""
    store = _store(samples)
    if not isinstance(samples, Part):
        return store.arrays["y"]
    return np.concatenate([store.arrays["y"][store.targets[n] : store.targets[n + 1]] for n in samples.indices])


def _store(samples: Samples) -> GraphStore:
    store = samples.whole if isinstance(samples, Part) else samples
    assert isinstance(store, GraphStore)
    return store
