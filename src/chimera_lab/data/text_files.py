"""Text, jsonl and parquet files as pieces of text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from chimera_lab.data.files import read_lines, reason

TEXT_SUFFIXES = (".txt", ".text", ".tokens", ".raw", ".jsonl", ".json", ".parquet")
#: Tables, which are read as plain text if they are named.
_TABLES = (".csv", ".tsv")


#: Lines and words of at least this length are reported: such files are often not text.
_LONG_LINE, _LONG_WORD = 1_000_000, 10_000


def text_suffix(path: Path) -> str:
    """The suffix that determines the format of a file, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def note_if_table(path: Path) -> None:
    """Say that a table is read as plain text, whose columns mean nothing."""
    if text_suffix(path) in _TABLES:
        _print_once(
            f"note: {path} is read as plain text, commas and labels included; to train on its classes, see "
            f"docs/transformers.md, section Your own classes"
        )


def read_pieces(path: Path, text_column: str) -> Iterator[str | None]:
    """The text of a file, a line or a document at a time; ``None`` ends a document."""
    suffix = text_suffix(path)
    if suffix == ".parquet":
        found = as_documents(_parquet(path, text_column))
    elif suffix in (".jsonl", ".json"):
        found = as_documents(_jsonl(path, text_column))
    else:
        found = _text(path)
    empty = True
    for piece in found:
        if piece is None or not piece.isspace():
            empty = empty and not piece
            yield piece
    if empty:
        raise ValueError(f"{path} is empty: remove it, or write text into it")


def _text(path: Path) -> Iterator[str | None]:
    """The lines of a file, which is one document."""
    for number, line in read_lines(path):
        if len(line) >= _LONG_WORD:
            _warn_if_unusual(f"line {number} of {path}", line)
        yield line
    yield None


def _warn_if_unusual(where: str, line: str) -> None:
    longest = max(map(len, line.split()), default=0)
    if len(line) >= _LONG_LINE or longest >= _LONG_WORD:
        _print_once(
            f"note: {where} has {len(line):,} characters, and a word of {longest:,}; is it text? It is read all the "
            f"same; WordPiece knows no words of more than 100 characters, they become [UNK]"
        )


@cache
def _print_once(words: str) -> None:
    """Print a note once, although a corpus is read several times."""
    print(words, file=sys.stderr)


def _jsonl(path: Path, column: str) -> Iterator[str]:
    for number, line in read_lines(path):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise ValueError(f"line {number} of {path} is not JSON: {why}; each line must be an object") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number} of {path} must be an object with the key {column!r}, found {line[:40]!r}")
        _check_column(path, column, row)
        if not isinstance(row[column], str):
            raise ValueError(f"{column!r} must be text, found {row[column]!r} in line {number} of {path}")
        yield row[column]


def _parquet(path: Path, column: str) -> Iterator[str]:
    for number, value in enumerate(_parquet_values(path, column), start=1):
        if not isinstance(value, str):
            raise ValueError(f"{column!r} must be text, found {value!r} in row {number} of {path}")
        yield value


def _parquet_values(path: Path, column: str) -> Iterator[Any]:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        names = file.schema_arrow.names
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"{path} is not a parquet file: {reason(error)}; copy it again") from None
    _check_column(path, column, names)
    try:
        for batch in file.iter_batches(columns=[column]):
            yield from batch.column(0).to_pylist()
    except Exception as error:
        raise ValueError(f"{path} is damaged: {reason(error)}; copy it again") from None


def _check_column(path: Path, column: str, names: Iterable[str]) -> None:
    if column not in names:
        raise ValueError(
            f"{path} has no {column!r}, but {', '.join(map(repr, names))}; name the one with the text with "
            f"--text-column"
        )


def as_documents(texts: Iterable[str]) -> Iterator[str | None]:
    """Each text, followed by ``None``."""
    for text in texts:
        yield text
        yield None
