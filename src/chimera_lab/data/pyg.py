"""Data sets of PyG: the Long Range Graph Benchmark, and any other by the name of its class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chimera_lab.data.cache import cache_folder, content_digest, plain_name
from chimera_lab.data.files import reason
from chimera_lab.data.graph_data import GraphData, check_problem, describe, describe_whole, infer_problem
from chimera_lab.data.graph_store import GraphSample, GraphStore, cached_store
from chimera_lab.data.molecules import CLASSES, LABELS, REGRESSION
from chimera_lab.data.peptides import FUNCTION_FILES, STRUCTURE_FILES
from chimera_lab.data.progress import each

Array = np.ndarray


PARTS = "train", "val", "test"


#: The Long Range Graph Benchmark, and the types of its labels.
LRGB = {"peptides-func": LABELS, "peptides-struct": REGRESSION, "pascalvoc-sp": CLASSES, "coco-sp": CLASSES}


def load_lrgb(name: str, root: Path, problem: str | None) -> GraphData:
    """PyG's files, in a folder of their name in ``root``."""
    from torch_geometric.datasets import LRGBDataset

    check_problem(name, LRGB[name], problem)
    try:
        parts = [LRGBDataset(str(root), name, split=part) for part in PARTS]
    except Exception as error:  # network and files: of many kinds
        files = " and ".join(STRUCTURE_FILES if name.endswith("struct") else FUNCTION_FILES)
        hint = f"; or name a folder with {files} with --data FOLDER" if name.startswith("peptides") else ""
        raise ValueError(
            f"{name} was looked for in {root} and could not be downloaded ({type(error).__name__}); put PyG's files of "
            f"LRGBDataset there{hint}"
        ) from error
    molecular = name.startswith("peptides")
    stores = [_cached_dataset(part, f"{name}-{word}") for part, word in zip(parts, PARTS, strict=True)]
    return describe(stores[0], stores[1], stores[2], LRGB[name], atoms=molecular, standardise=False)


def load_pyg(name: str, undivided: bool) -> GraphData:
    """Any data set of PyG: with an official split, with masks of nodes, or with a fixed fifth for testing."""
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
        sets = [build(**options, split=part) for part in PARTS] if in_parts else [build(**options)]
    except Exception as error:  # network and files: of many kinds
        raise ValueError(
            f"PyG's {name} could not be loaded from {options.get('root', 'memory')}, nor downloaded "
            f"({type(error).__name__}: {reason(error)}); put its files there"
        ) from error
    if in_parts:
        stores = [_cached_dataset(part, f"{kind}-{word}") for part, word in zip(sets, PARTS, strict=True)]
        return describe(stores[0], stores[1], stores[2], infer_problem(stores[0]))
    if len(sets[0]) == 1 and hasattr(sets[0][0], "train_mask"):
        return _of_masks(sets[0][0])
    store = _cached_dataset(sets[0], kind)
    return describe_whole(store, infer_problem(store), undivided, atoms=False)


def _check_options(kind: str, options: dict[str, Any], accepted: Mapping[str, inspect.Parameter]) -> None:
    """Refuse a data set that needs more arguments than its name."""
    if "name" in options and "name" not in accepted:
        raise ValueError(f"PyG's {kind} has no data sets by name; write pyg:{kind}")
    needed = [p for p in accepted.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [p.name for p in needed if p.name not in options]
    if missing == ["name"]:
        raise ValueError(f"PyG's {kind} has several data sets; name one as pyg:{kind}/name")
    if missing:
        raise ValueError(f"PyG's {kind} needs {', '.join(missing)}, for which there is no setting; choose another")


def _cached_dataset(dataset: Any, name: str) -> GraphStore:
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
    """One graph with masks of nodes: a part hides the other labels; without a test mask, the rest is tested."""
    graph = _of_data(data, "the graph")
    if len(graph.y) != len(graph.x):
        raise ValueError(f"nodes divided by masks should each have a label, found {data!r}")
    masks = {part: data[f"{part}_mask"] for part in PARTS if f"{part}_mask" in data}
    known = {part: (mask if mask.dim() == 1 else mask[:, 0]).numpy() for part, mask in masks.items()}
    known.setdefault("test", ~np.any([*known.values()], axis=0))
    stores = {part: GraphStore.of([graph._replace(y=_hidden(graph.y, ~mask))]) for part, mask in known.items()}
    return describe(stores["train"], stores.get("val"), stores["test"], infer_problem(stores["train"]))


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
    if y.ndim > 1:  # one column holds classes, several hold labels
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
