"""Molecules: SMILES to graphs with ogb's features, csv files, and rdkit's NCI molecules."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chimera_lab.data.files import read_lines
from chimera_lab.data.graph_store import GraphSample, GraphStore, cached_store
from chimera_lab.data.progress import each

Array = np.ndarray

#: Types of labels, as in `transformers`.
REGRESSION, CLASSES, LABELS = "regression", "single_label_classification", "multi_label_classification"


class MoleculeRecord(NamedTuple):
    """A molecule in a file.

    Attributes:
        line: its line number.
        smiles: its SMILES.
        y: its labels, ``[1, targets]``, or ``[1]`` a class.
    """

    line: int
    smiles: str
    y: Array


def molecule_graph(smiles: str) -> tuple[Array, Array, Array]:
    """Atoms ``[T, 9]``, edges ``[2, E]``, each bond both ways, and bonds ``[E, 3]``, with the features of ogb.

    Raises:
        ValueError: if this is not a molecule, or one without atoms.
    """
    from ogb.utils.features import atom_to_feature_vector, bond_to_feature_vector
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():  # rdkit would print to the terminal
        molecule = Chem.MolFromSmiles(smiles.encode(errors="replace").decode())
    if molecule is None:
        raise ValueError(f"{smiles!r} is not a molecule that rdkit can read")
    if molecule.GetNumAtoms() == 0:
        raise ValueError("the molecule is empty")
    x = np.array([atom_to_feature_vector(atom) for atom in molecule.GetAtoms()], np.uint8)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), bond_to_feature_vector(b)) for b in molecule.GetBonds()]
    edges = np.array([end for a, b, _ in bonds for end in ((a, b), (b, a))], np.int64).reshape(-1, 2).T
    features = np.array([feature for *_, feature in bonds for _ in range(2)], np.uint8).reshape(-1, 3)
    return x, np.ascontiguousarray(edges), features


def feature_values() -> tuple[list[int], list[int]]:
    """Number of values of each feature of an atom, and of a bond."""
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    return list(get_atom_feature_dims()), list(get_bond_feature_dims())


def molecule_store(rows: Sequence[MoleculeRecord], where: Path, remedy: str = "") -> GraphStore:
    """Graphs of molecules; the store's notes list the unreadable ones.

    Args:
        rows: the molecules.
        where: their file, for messages.
        remedy: advice on an unreadable molecule, which is then refused; without advice it is skipped.
    """
    graphs, notes = [], []
    with each(rows, f"reading {len(rows):,} molecules of {where.name}") as read:
        for row in read:
            try:
                graphs.append(GraphSample(*molecule_graph(row.smiles), row.y))
            except ValueError as error:
                notes.append(f"{where.name}, line {row.line}: {error}")
                if remedy:
                    raise ValueError(f"{notes[-1]}; {remedy}") from None
    if not graphs:
        raise ValueError(f"none of the {len(notes)} molecules of {where} can be read; {notes[0]}")
    return GraphStore.of(graphs, notes)


def molecule_source(rows: Sequence[MoleculeRecord], where: Path, remedy: str = "") -> bytes:
    """The input of `molecule_store`, as the key of its cache."""
    return repr((where.name, remedy, [(row.line, row.smiles, row.y.tolist()) for row in rows])).encode()


# csv files


def read_rows(path: Path, smiles: str, targets: Sequence[str], problem: str) -> list[MoleculeRecord]:
    """Molecules of a csv file with a header; missing labels are NaN.

    Args:
        path: ``.csv`` or ``.csv.gz``.
        smiles: name of the column of molecules.
        targets: names of the columns of labels.
        problem: type of the labels.
    """
    lines = csv_lines(path, (smiles, *targets))
    return [
        MoleculeRecord(n, row[smiles], parse_labels([row[t] for t in targets], path, n, problem)) for n, row in lines
    ]


def csv_lines(path: Path, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Rows of a csv file by column, each with its line number; the columns ``needed`` must exist."""
    text = "".join(line for _, line in read_lines(path))
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        columns = next(reader, [])
        if not columns:
            raise ValueError(f"{path} has no header: its first line should name the columns {', '.join(needed)}")
        for name in needed:
            if name not in columns:
                raise ValueError(f"{path} has no column {name!r}; it has: {', '.join(columns)}")
            if (found := columns.count(name)) > 1:
                raise ValueError(f"{path} should have one column {name!r}, found {found}; rename or remove the others")
        lines = [(reader.line_num, fields) for fields in reader if fields]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}; correct the line") from None
    if not lines:
        raise ValueError(f"{path} has a header and no molecules")
    for number, fields in lines:
        if len(fields) != len(columns):
            raise ValueError(
                f"{path}, line {number}: found {len(fields)} fields, expected {len(columns)} as in the header; "
                f"correct the line, with quotes around fields that have a comma"
            )
    return [(number, dict(zip(columns, fields, strict=True))) for number, fields in lines]


def parse_labels(values: Sequence[str], path: Path, line: int, problem: str) -> Array:
    """Labels as numbers ``[1, targets]``, NaN where missing; a class is ``[1]``."""
    try:
        numbers = np.array([float(v) if v.strip() else np.nan for v in values])
    except ValueError:
        numbers = np.array([np.inf])  # not valid for any type of labels
    expected, fit = _EXPECTED[problem]
    if not fit(numbers):
        raise ValueError(f"{path}, line {line}: {expected}, found {', '.join(map(repr, values))}")
    return numbers.astype(np.int64) if problem == CLASSES else numbers[None].astype(np.float32)


#: For each type of labels, the expectation in words and a check.
_EXPECTED: dict[str, tuple[str, Callable[[Array], Any]]] = {
    REGRESSION: (
        "labels must be finite numbers, or empty where they are not known",
        lambda y: (np.isnan(y) | (np.abs(y) <= np.finfo(np.float32).max)).all(),
    ),
    LABELS: (
        f"labels must be 0 or 1 for {LABELS}, or empty where they are not known",
        lambda y: (np.isnan(y) | (y == 0) | (y == 1)).all(),
    ),
    CLASSES: (
        "a class must be one whole number from 0 on",
        lambda y: y.size == 1 and 0 <= y[0] < 1 << 31 and y[0] % 1 == 0,
    ),
}


def csv_store(path: Path, smiles: str, targets: Sequence[str], problem: str, refuse: bool) -> GraphStore:
    """The graphs of a csv file, cached."""
    rows = read_rows(path, smiles, targets, problem)
    remedy = "correct or remove it, or skip such lines with --bad-smiles skip" if refuse else ""
    store = cached_store(
        path.name.partition(".")[0], molecule_source(rows, path, remedy), lambda: molecule_store(rows, path, remedy)
    )
    for note in store.notes:
        print(f"skipped {note}", file=sys.stderr)
    return store


def nci() -> GraphStore:
    """Rdkit's first 5,000 molecules of the NCI, with their polar surface area in Å²."""
    from rdkit import RDConfig

    path = Path(RDConfig.RDDataDir) / "NCI" / "first_5k.tpsa.csv"
    if not path.is_file():
        raise ValueError(f"rdkit's NCI molecules should be in {path} and are not; install rdkit from PyPI")
    lines = [(n, line) for n, line in enumerate(path.read_text().splitlines(), 1) if line and not line.startswith("#")]
    rows = [MoleculeRecord(n, *_split(line)) for n, line in lines]
    return cached_store("nci", molecule_source(rows, path), lambda: molecule_store(rows, path))


def _split(line: str) -> tuple[str, Array]:
    smiles, area = line.rsplit(",", 1)
    return smiles, np.array([[float(area)]], np.float32)
