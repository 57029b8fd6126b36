"""Labelled graphs: rdkit's molecules, the Long Range Graph Benchmark, csv files of molecules, data sets of PyG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from chimera_lab.data import molecules
from chimera_lab.data.cache import cache_folder
from chimera_lab.data.graph_data import GraphData, check_problem, describe, describe_whole, store_of
from chimera_lab.data.graph_store import GraphStore
from chimera_lab.data.molecules import CLASSES, LABELS, REGRESSION
from chimera_lab.data.peptides import FUNCTION_FILES, STRUCTURE_FILES, read_peptides
from chimera_lab.data.positions import add_positions
from chimera_lab.data.properties import properties
from chimera_lab.data.pyg import LRGB, PARTS, load_lrgb, load_pyg
from chimera_lab.data.samples import Part
from chimera_lab.data.scenes import scenes
from chimera_lab.data.superpixels import superpixels
from chimera_lab.data.transfer import NAMES, transfer
from chimera_lab.data.trees import trees


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
        data: ``nci``; ``rings:LOW-HIGH``, ``crossed-rings:…``, ``lollipops:…`` and ``transfer:…``, see `transfer`;
            ``trees:LOW-HIGH``, ``properties:NAME``, ``scenes`` and ``superpixels:FOLDER``, see these functions; a name
            of the Long Range Graph Benchmark; a folder with the peptides' original files; a csv file of molecules, or a
            folder with train.csv and test.csv, and val.csv or not; or ``pyg:Class``, ``pyg:Class/name``, a data set of
            PyG.
        smiles: csv: name of the column of molecules.
        targets: csv: names of the columns of labels.
        problem: required type of the labels, see `GraphData`; by default inferred, and regression in csv files.
        refuse: csv: whether an unreadable molecule is an error; otherwise it is skipped and reported.
        walks: number of random-walk return probabilities of each node.
        eigenvectors: number of Laplacian eigenvectors of each node.
        segments: superpixels: approximate number of regions per image.
        undivided: for testing a trained model: data without a split are used as a whole, and the labels' mean and
            standard deviation are not computed.
    """
    path = Path(data).expanduser()
    if data == "nci":
        found = describe_whole(molecules.nci(), REGRESSION, undivided)
    elif data.split(":")[0] in (*NAMES, "transfer", "trees", "properties"):
        found = _generated(data)
    elif data == "scenes" or data.startswith("superpixels:"):
        found = _superpixels(data, segments)
    elif data.startswith("pyg:"):
        found = load_pyg(data.removeprefix("pyg:"), undivided)
    elif data in LRGB and not path.is_dir():
        found = load_lrgb(data, cache_folder() / "lrgb", problem)
    elif path.name in LRGB and any((path / made).is_dir() for made in ("raw", "processed")):
        found = load_lrgb(path.name, path.parent, problem)
    elif path.is_dir() and any((path / files[0]).exists() for files in (FUNCTION_FILES, STRUCTURE_FILES)):
        found = _peptides(path, problem)
    elif path.exists():
        found = _csv(path, smiles, tuple(targets), problem or REGRESSION, refuse, undivided)
    else:
        raise ValueError(
            f"there is no data set, file or folder {data!r}; data is nci, rings:1-16, {', '.join(LRGB)}, "
            f"transfer:3-50, trees:2-5, properties:distance, scenes, superpixels:FOLDER, pyg:Class/name, a csv file of "
            f"molecules, or a folder with train.csv and test.csv or with the peptides' original files"
        )
    check_problem(data, found.problem_type, problem)
    if walks or eigenvectors:
        parts = [part for part in (found.train, found.validation, found.test) if part is not None]
        for store in {id(store_of(part)): store_of(part) for part in parts}.values():
            add_positions(store, walks, eigenvectors)
    return found


def _generated(data: str) -> GraphData:
    if data.startswith("properties:"):
        parts = properties(data)
        return describe(parts["train"], parts["val"], parts["test"], REGRESSION)
    train, test = trees(data) if data.startswith("trees:") else transfer(data)
    return describe(train, None, test, CLASSES)


def _superpixels(data: str, segments: int) -> GraphData:
    folder = Path(data.removeprefix("superpixels:")).expanduser()
    train, test = scenes(segments) if data == "scenes" else superpixels(folder, segments)
    return describe(train, None, test, CLASSES)


def _peptides(folder: Path, problem: str | None) -> GraphData:
    """The peptides in a folder; if it has the files of both tasks, ``problem`` selects one."""
    there = [
        kind
        for kind, files in ((LABELS, FUNCTION_FILES), (REGRESSION, STRUCTURE_FILES))
        if (folder / files[0]).exists()
    ]
    if len(there) > 1 and problem not in there:
        raise ValueError(
            f"{folder} has the files of both Peptides-func and Peptides-struct; say which with --problem {LABELS} or "
            f"--problem {REGRESSION}"
        )
    kind = problem if problem in there else there[0]
    check_problem(folder, kind, problem)
    store, parts = read_peptides(folder, structure=kind == REGRESSION)
    train, validation, test = (Part(store, torch.from_numpy(parts[name])) for name in PARTS)
    return describe(train, validation, test, kind, atoms=True, standardise=False)


def _csv(path: Path, smiles: str, targets: tuple[str, ...], problem: str, refuse: bool, undivided: bool) -> GraphData:
    def read(file: Path) -> GraphStore:
        return molecules.csv_store(file, smiles, targets, problem, refuse)

    if path.is_file():
        return describe_whole(read(path), problem, undivided)
    files = {name: path / f"{name}.csv" for name in PARTS}
    if not files["train"].is_file() or not files["test"].is_file():
        raise ValueError(f"{path} was looked at for train.csv and test.csv, or for the peptides' original files")
    validation = read(files["val"]) if files["val"].is_file() else None
    return describe(read(files["train"]), validation, read(files["test"]), problem, True, not undivided)
