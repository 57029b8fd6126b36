"""Molecules: SMILES to graphs with ogb's features; csv files, the peptides' original files, rdkit's NCI molecules."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chimera_ssm.data.graph_store import Graph, GraphStore, kept

Array = np.ndarray

STRUCTURE = (
    "Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a", "Inertia_valence_b",
    "Inertia_valence_c", "length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit",
)  # fmt: skip

#: Files of the peptides, and of their splits.
FUNCTION_FILES = "peptide_multi_class_dataset.csv.gz", "splits_random_stratified_peptide.pickle"
STRUCTURE_FILES = "peptide_structure_dataset.csv.gz", "splits_random_stratified_peptide_structure.pickle"


class Row(NamedTuple):
    """A molecule as it stands in a file.

    Attributes:
        line: number in the file.
        smiles: the molecule.
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

    with rdBase.BlockLogs():  # it would write to the terminal by itself
        molecule = Chem.MolFromSmiles(smiles)
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


def molecule_store(rows: Iterable[Row], where: Path, refuse: bool = False) -> GraphStore:
    """Graphs of molecules; the store's notes tell of those that cannot be read.

    Args:
        rows: the molecules.
        where: the file they come from, for messages.
        refuse: whether a molecule that cannot be read is an error; it is skipped otherwise.
    """
    graphs, notes = [], []
    for row in rows:
        try:
            graphs.append(Graph(*molecule_graph(row.smiles), row.y))
        except ValueError as error:
            notes.append(f"{where.name}, line {row.line}: {error}")
            if refuse:
                raise ValueError(
                    f"{notes[-1]}; correct or remove it, or skip such lines with --bad-smiles skip"
                ) from None
    if not graphs:
        raise ValueError(f"none of the {len(notes)} molecules of {where} can be read; {notes[0]}")
    return GraphStore.of(graphs, notes)


# csv files


def read_rows(path: Path, smiles: str, targets: Sequence[str], classes: bool = False) -> list[Row]:
    """Molecules of a csv file with a header; a label that is left out is NaN.

    Args:
        path: ``.csv`` or ``.csv.gz``.
        smiles: name of the column of molecules.
        targets: names of the columns of labels.
        classes: whether labels are classes: whole numbers, one column, none left out.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)))
    columns = reader.fieldnames or []
    for name in (smiles, *targets):
        if name not in columns:
            raise ValueError(f"{path} has no column {name!r}; it has: {', '.join(columns)}")
    rows = [
        Row(reader.line_num, row[smiles] or "", _labels([row[t] for t in targets], path, reader.line_num, classes))
        for row in reader
    ]
    if not rows:
        raise ValueError(f"{path} has a header and no molecules")
    return rows


def _labels(values: Sequence[str | None], path: Path, line: int, classes: bool) -> Array:
    try:
        numbers = [float(v) if v else float("nan") for v in values]
    except ValueError:
        raise ValueError(f"{path}, line {line}: labels must be numbers, found {', '.join(map(repr, values))}") from None
    if not classes:
        return np.array([numbers], np.float32)
    if len(numbers) != 1 or numbers[0] != numbers[0] or numbers[0] < 0 or numbers[0] % 1:
        raise ValueError(f"{path}, line {line}: a class must be one whole number from 0 on, found {values!r}")
    return np.array([int(numbers[0])])


def read_text(path: Path) -> str:
    """A text file, gzipped or not."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def csv_store(path: Path, smiles: str, targets: Sequence[str], classes: bool, refuse: bool) -> GraphStore:
    """The graphs of a csv file, kept beside it."""
    how = f"{smiles} {targets} {classes} {refuse}".encode()
    rows = read_rows(path, smiles, targets, classes)
    name, source = path.name.partition(".")[0], path.read_bytes() + how
    store = kept(name, path.parent, source, lambda: molecule_store(rows, path, refuse))
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
    rows = [Row(n, *_split(line)) for n, line in lines]
    return kept("nci", None, path.read_bytes(), lambda: molecule_store(rows, path))


def _split(line: str) -> tuple[str, Array]:
    smiles, area = line.rsplit(",", 1)
    return smiles, np.array([[float(area)]], np.float32)


# The peptides' original files


def peptides(folder: Path, structure: bool) -> tuple[GraphStore, dict[str, Array]]:
    """Peptides-func, or Peptides-struct, of the original files, with the official split."""
    names = STRUCTURE_FILES if structure else FUNCTION_FILES
    table, splits = (folder / name for name in names)
    for path in (table, splits):
        if not path.is_file():
            raise ValueError(f"{folder} should have the files {' and '.join(names)}; {path.name} is not there")
    split = read_split(splits)

    def make() -> GraphStore:
        rows = _structure_rows(table) if structure else _function_rows(table)
        return molecule_store(rows, table, refuse=True)

    store = kept("peptides-struct" if structure else "peptides-func", folder, table.read_bytes(), make)
    if max(int(part.max()) for part in split.values()) >= len(store):
        raise ValueError(f"{splits} names peptides that {table.name} does not have")
    return store, split


def _function_rows(path: Path) -> Iterator[Row]:
    for row in csv.DictReader(io.StringIO(read_text(path))):
        yield Row(int(row[""]) + 2, row["smiles"], np.array([json.loads(row["labels"])], np.float32))


def _structure_rows(path: Path) -> Iterator[Row]:
    """Targets are standardised over all peptides, as the benchmark does."""
    rows = read_rows(path, "smiles", STRUCTURE)
    y = np.concatenate([row.y for row in rows]).astype(np.float64)
    y = (y - y.mean(0)) / y.std(0, ddof=1)
    for row, target in zip(rows, y, strict=True):
        yield Row(row.line, row.smiles, target[None].astype(np.float32))


def read_split(path: Path) -> dict[str, Array]:
    """Indices of train, val and test, of a pickled dictionary of lists or arrays; nothing else is unpickled."""
    try:
        with path.open("rb") as file:
            split = _PlainUnpickler(file).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, ImportError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a split of plain lists or arrays: {error}") from None
    if not isinstance(split, dict) or not {"train", "val", "test"} <= set(split):
        raise ValueError(f"{path} should hold a dictionary with train, val and test, found {_words(split)}")
    parts = {name: np.asarray(split[name]) for name in ("train", "val", "test")}
    for name, part in parts.items():
        if part.ndim != 1 or not part.size or not np.issubdtype(part.dtype, np.integer) or part.min() < 0:
            raise ValueError(f"{path} should hold indices in {name}, found {_words(split[name])}")
    if sum(map(len, parts.values())) != len(np.unique(np.concatenate(list(parts.values())))):
        raise ValueError(f"{path} has indices that are in more than one part")
    return parts


def _words(value: Any) -> str:
    return f"{type(value).__name__} {sorted(map(str, value))[:5]}" if isinstance(value, dict) else type(value).__name__


class _PlainUnpickler(pickle.Unpickler):
    """Plain containers and NumPy's arrays; anything else could run code."""

    _ALLOWED = {
        (module, name)
        for home in ("numpy.core", "numpy._core")
        for module, name in ((f"{home}.multiarray", "_reconstruct"), (f"{home}.multiarray", "scalar"))
    } | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it holds {module}.{name}")
        return super().find_class(module, name)
