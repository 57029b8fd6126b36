"""Molecules: SMILES to graphs with ogb's features; csv files, the peptides' original files, rdkit's NCI molecules."""

from __future__ import annotations

import csv
import io
import pickle
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from chimera_lab.data.files import read_lines, reason
from chimera_lab.data.graph_store import GraphSample, GraphStore, cached_store
from chimera_lab.data.progress import each

Array = np.ndarray

#: What labels are, as in `transformers`.
REGRESSION, CLASSES, LABELS = "regression", "single_label_classification", "multi_label_classification"

STRUCTURE = (
    "Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a", "Inertia_valence_b",
    "Inertia_valence_c", "length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit",
)  # fmt: skip

#: Files of the peptides, and of their splits.
FUNCTION_FILES = "peptide_multi_class_dataset.csv.gz", "splits_random_stratified_peptide.pickle"
STRUCTURE_FILES = "peptide_structure_dataset.csv.gz", "splits_random_stratified_peptide_structure.pickle"


class MoleculeRecord(NamedTuple):
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
    """Graphs of molecules; the store's notes tell of those that cannot be read.

    Args:
        rows: the molecules.
        where: the file they come from, for messages.
        remedy: what to do about a molecule that cannot be read, which is refused; it is skipped if nothing is said.
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


def _source(rows: Sequence[MoleculeRecord], where: Path, remedy: str = "") -> bytes:
    """What `molecule_store` makes graphs of."""
    return repr((where.name, remedy, [(row.line, row.smiles, row.y.tolist()) for row in rows])).encode()


# csv files


def read_rows(path: Path, smiles: str, targets: Sequence[str], problem: str) -> list[MoleculeRecord]:
    """Molecules of a csv file with a header; a label that is left out is NaN.

    Args:
        path: ``.csv`` or ``.csv.gz``.
        smiles: name of the column of molecules.
        targets: names of the columns of labels.
        problem: what the labels are.
    """
    lines = _lines(path, (smiles, *targets))
    return [MoleculeRecord(n, row[smiles], _labels([row[t] for t in targets], path, n, problem)) for n, row in lines]


def _lines(path: Path, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Rows of a csv file by column, each with its number in the file; the columns needed are there."""
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


def _labels(values: Sequence[str], path: Path, line: int, problem: str) -> Array:
    """Labels as numbers, NaN for those left out, ``[1, targets]``; of a class ``[1]``."""
    try:
        numbers = np.array([float(v) if v.strip() else np.nan for v in values])
    except ValueError:
        numbers = np.array([np.inf])  # a number that no problem has
    expected, fit = _EXPECTED[problem]
    if not fit(numbers):
        raise ValueError(f"{path}, line {line}: {expected}, found {', '.join(map(repr, values))}")
    return numbers.astype(np.int64) if problem == CLASSES else numbers[None].astype(np.float32)


#: What labels should be, in words, and whether they are.
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
    """The graphs of a csv file, kept in the cache."""
    rows = read_rows(path, smiles, targets, problem)
    remedy = "correct or remove it, or skip such lines with --bad-smiles skip" if refuse else ""
    store = cached_store(
        path.name.partition(".")[0], _source(rows, path, remedy), lambda: molecule_store(rows, path, remedy)
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
    return cached_store("nci", _source(rows, path), lambda: molecule_store(rows, path))


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

    rows = _structure_rows(table) if structure else _function_rows(table)
    remedy = "correct it; it cannot be left out, because the split counts the lines"
    name = "peptides-struct" if structure else "peptides-func"
    store = cached_store(name, _source(rows, table, remedy), lambda: molecule_store(rows, table, remedy))
    if max(int(part.max()) for part in split.values()) >= len(store):
        raise ValueError(f"{splits} names peptides that {table.name} does not have")
    return store, split


def _function_rows(path: Path) -> list[MoleculeRecord]:
    """Labels are written as a list, ``[0, 1, …]``, of the same length in each line."""
    rows = [
        MoleculeRecord(n, row["smiles"], _labels(row["labels"].strip("[] ").split(","), path, n, LABELS))
        for n, row in _lines(path, ("smiles", "labels"))
    ]
    for row in rows:
        if row.y.shape != rows[0].y.shape:
            raise ValueError(f"{path}, line {row.line}: found {row.y.size} labels, expected {rows[0].y.size} as before")
    return rows


def _structure_rows(path: Path) -> list[MoleculeRecord]:
    """Targets are standardised over all peptides, as the benchmark does."""
    rows = read_rows(path, "smiles", STRUCTURE, REGRESSION)
    y = np.concatenate([row.y for row in rows]).astype(np.float64)
    y = (y - np.nanmean(y, 0)) / np.nanstd(y, 0, ddof=1)
    return [
        MoleculeRecord(row.line, row.smiles, target[None].astype(np.float32))
        for row, target in zip(rows, y, strict=True)
    ]


def read_split(path: Path) -> dict[str, Array]:
    """Indices of train, val and test, of a pickled dictionary of lists or arrays; nothing else is unpickled."""
    content = path.read_bytes()
    try:
        split = _PlainUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # what is no pickle may raise anything
        raise ValueError(
            f"{path} is not a split of plain lists or arrays: {reason(error)}; pickle a dictionary of lists of integers"
        ) from None
    if not isinstance(split, dict) or not {"train", "val", "test"} <= set(split):
        raise ValueError(f"{path} should hold a dictionary with train, val and test, found {_words(split)}")
    parts = {name: _indices(split[name]) for name in ("train", "val", "test")}
    for name, part in parts.items():
        if not part.size or part.min() < 0:
            raise ValueError(f"{path} should hold indices in {name}, found {_words(split[name])}")
    if sum(map(len, parts.values())) != len(np.unique(np.concatenate(list(parts.values())))):
        raise ValueError(f"{path} has indices that are in more than one part")
    return parts


def _indices(value: Any) -> Array:
    """A list or array of whole numbers, int64 ``[n]``; of anything else nothing."""
    try:
        found = np.asarray(value)
        if found.ndim == 1 and np.issubdtype(found.dtype, np.integer):
            return np.array(found.tolist(), np.int64)
    except (ValueError, OverflowError):  # lists of unequal length, numbers that are too large
        pass
    return np.empty(0, np.int64)


def _words(value: Any) -> str:
    return f"{type(value).__name__} {sorted(map(str, value))[:5]}" if isinstance(value, dict) else type(value).__name__


_KNOWN: dict[int, Any] = pickle._Unpickler.dispatch


class _PlainUnpickler(pickle._Unpickler):
    """Plain containers and NumPy's arrays of integers; anything else could run code.

    In Python and without NumPy: damaged pickles make their own C code crash.
    """

    # As bytes, which are read, while arrays of bytes are allocated first, whatever length a damaged pickle names.
    dispatch: ClassVar = _KNOWN | {pickle.BYTEARRAY8[0]: _KNOWN[pickle.BINBYTES8[0]]}

    def find_class(self, module: str, name: str) -> Any:
        known = _PLAIN.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise pickle.UnpicklingError(f"it holds {module}.{name}")
        return known


class _Type:
    """In place of NumPy's type of integers."""

    def __init__(self, code: str, *_: Any):
        if not re.fullmatch("[iu][1248]", code):
            raise pickle.UnpicklingError(f"it holds numbers of the type {code}, expected integers")
        self.code, self.order = code, "<"

    def __setstate__(self, state: tuple) -> None:
        self.order = {"|": "<"}.get(state[1], state[1])

    def read(self, content: bytes) -> list[int]:
        return np.frombuffer(content, np.dtype(self.order + self.code)).tolist()


class _Integers(list):
    """In place of NumPy's array of integers, ``[n]``."""

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, _, content = state
        self[:] = kind.read(content)
        if shape != (len(self),):
            raise pickle.UnpicklingError(f"it holds {len(self)} numbers as an array of the shape {shape}")


_PLAIN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Integers,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Integers(),
    ("numpy.core.multiarray", "scalar"): lambda kind, content: kind.read(content)[0],
    ("numpy.core.numeric", "_frombuffer"): lambda content, kind, *_: _Integers(kind.read(content)),
    ("_codecs", "encode"): lambda text, *_: text.encode("latin1"),
}
