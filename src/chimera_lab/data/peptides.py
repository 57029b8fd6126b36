"""Peptides-func and Peptides-struct from their original files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chimera_lab.data.graph_store import GraphStore, cached_store
from chimera_lab.data.molecules import (
    LABELS,
    REGRESSION,
    MoleculeRecord,
    csv_lines,
    molecule_source,
    molecule_store,
    parse_labels,
    read_rows,
)  # fmt: skip
from chimera_lab.data.plain_pickle import read_split

Array = np.ndarray


STRUCTURE = (
    "Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a", "Inertia_valence_b",
    "Inertia_valence_c", "length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit",
)  # fmt: skip


#: Files of the peptides, and of their splits.
FUNCTION_FILES = "peptide_multi_class_dataset.csv.gz", "splits_random_stratified_peptide.pickle"


STRUCTURE_FILES = "peptide_structure_dataset.csv.gz", "splits_random_stratified_peptide_structure.pickle"


def read_peptides(folder: Path, structure: bool) -> tuple[GraphStore, dict[str, Array]]:
    """Peptides-func or Peptides-struct from the original files, with the official split."""
    names = STRUCTURE_FILES if structure else FUNCTION_FILES
    table, splits = (folder / name for name in names)
    for path in (table, splits):
        if not path.is_file():
            raise ValueError(f"{folder} should have the files {' and '.join(names)}; {path.name} is not there")
    split = read_split(splits)

    rows = _structure_rows(table) if structure else _function_rows(table)
    remedy = "correct it; it cannot be left out, because the split counts the lines"
    name = "peptides-struct" if structure else "peptides-func"
    store = cached_store(name, molecule_source(rows, table, remedy), lambda: molecule_store(rows, table, remedy))
    if max(int(part.max()) for part in split.values()) >= len(store):
        raise ValueError(f"{splits} names peptides that {table.name} does not have")
    return store, split


def _function_rows(path: Path) -> list[MoleculeRecord]:
    """Labels are a list, ``[0, 1, …]``, of equal length in each line."""
    rows = [
        MoleculeRecord(n, row["smiles"], parse_labels(row["labels"].strip("[] ").split(","), path, n, LABELS))
        for n, row in csv_lines(path, ("smiles", "labels"))
    ]
    for row in rows:
        if row.y.shape != rows[0].y.shape:
            raise ValueError(f"{path}, line {row.line}: found {row.y.size} labels, expected {rows[0].y.size} as before")
    return rows


def _structure_rows(path: Path) -> list[MoleculeRecord]:
    """Targets are standardized over all peptides, as in the benchmark."""
    rows = read_rows(path, "smiles", STRUCTURE, REGRESSION)
    y = np.concatenate([row.y for row in rows]).astype(np.float64)
    y = (y - np.nanmean(y, 0)) / np.nanstd(y, 0, ddof=1)
    return [
        MoleculeRecord(row.line, row.smiles, target[None].astype(np.float32))
        for row, target in zip(rows, y, strict=True)
    ]
