"""Texts to train on: Python's own documentation, files, C4."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from chimera_lab.data.cache import cache_folder
from chimera_lab.data.files import read_lines, reason

_SUFFIXES = (".txt", ".text", ".tokens", ".raw", ".jsonl", ".json", ".parquet")
_TESTS = ("test", "validation", "valid", "val", "dev")
#: Lines and words of so many characters are told of: such files are often something else than text.
_LONG_LINE, _LONG_WORD = 1_000_000, 10_000


@dataclass(frozen=True)
class Corpus:
    """Documents, one after the other.

    Attributes:
        name: in messages.
        key: equal for equal texts only.
        pieces: the text, a piece at a time, such as a line; ``None`` ends a document.
        size: characters or bytes, if known.
        files: that it is read from.
    """

    name: str
    key: Any
    pieces: Callable[[], Iterator[str | None]]
    size: int | None = None
    files: tuple[Path, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether it comes from afar, perhaps without end."""
        return self.size is None and not self.files

    def __str__(self) -> str:
        """The name, and the first of its files if there are several."""
        if len(self.files) < 2:
            return self.name
        further = f" and {len(self.files) - 3} more" if len(self.files) > 3 else ""
        return f"{self.name} ({', '.join(path.name for path in self.files[:3])}{further})"


class Corpora(NamedTuple):
    """A corpus to train on and one for testing; without the latter, a part of the former will be held out."""

    train: Corpus
    test: Corpus | None


def load_corpora(data: str, text_column: str) -> Corpora:
    """The corpora of a name, or in a folder.

    Args:
        data: ``pydoc``, ``wikitext-2``, ``c4``, a file, or a folder of files: text, jsonl or parquet, gzipped or not.
            Files and folders with the word test in their names, or else validation, valid, val or dev, are for testing,
            all others for training; vocab.txt is not read.
        text_column: where the text is in jsonl and parquet files.
    """
    if data == "pydoc":
        return Corpora(_pydoc(), None)
    if data == "c4":
        return Corpora(_c4("train"), _c4("validation"))
    if data == "wikitext-2":
        return _wikitext2(text_column)
    path = Path(data).expanduser()
    if path.is_file():
        return Corpora(_files(str(path), [path], text_column), None)
    if not path.is_dir():
        raise ValueError(
            f"there is no data set, no file and no folder {data!r}; data is pydoc, wikitext-2, c4, a file, or a folder "
            f"of files with one of the endings {' '.join(_SUFFIXES)}"
        )
    return _folder(path, text_column)


def _pydoc() -> Corpus:
    """The topics of Python's help(): 465,000 characters of English, with examples."""
    from pydoc_data.topics import topics

    texts = [topics[name] for name in sorted(topics)]
    return Corpus("pydoc", ("pydoc", _digest(texts)), lambda: _documents(texts), sum(map(len, texts)))


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()


def _documents(texts: Iterable[str]) -> Iterator[str | None]:
    for text in texts:
        yield text
        yield None


# Files


def _wikitext2(text_column: str) -> Corpora:
    folder = cache_folder() / "wikitext-2"
    if not folder.is_dir():
        raise ValueError(
            f"WikiText-2 was looked for in {folder} and is not there: name the folder of its files train.txt, "
            f"valid.txt and test.txt with --data FOLDER"
        )
    return _folder(folder, text_column)


def _folder(folder: Path, text_column: str) -> Corpora:
    files = _found(folder)
    if not files:
        raise ValueError(f"{folder} has no texts: looked for files with one of the endings {' '.join(_SUFFIXES)}")
    by_part: dict[str, list[Path]] = {}
    for file in files:
        by_part.setdefault(_part(file.relative_to(folder)), []).append(file)
    train = by_part.pop("train", None)
    test = next((by_part[name] for name in _TESTS if name in by_part), None)
    for_testing = None if test is None else _files(str(folder), test, text_column)
    return Corpora(_nothing(folder) if train is None else _files(str(folder), train, text_column), for_testing)


def _nothing(folder: Path) -> Corpus:
    """In place of texts to train on: one may still test on the others."""

    def pieces() -> Iterator[str | None]:
        raise ValueError(f"all files in {folder} are for testing, by their names; others are needed to train on")

    return Corpus(str(folder), ("nothing", str(folder)), pieces, 0)


def _found(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if _suffix(path) in _SUFFIXES and path.name != "vocab.txt")
    return sorted(path for path in paths if path.is_file())


def _suffix(path: Path) -> str:
    """The ending that tells what is in a file, compressed or not."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _part(path: Path) -> str:
    """``wiki.test.tokens``, ``dev/a.txt`` and ``validation-00000-of-00001.parquet`` are for testing."""
    words = {word for part in path.parts for word in re.split("[^a-z]+", part.lower())}
    return next((name for name in _TESTS if name in words), "train")


def _files(name: str, paths: list[Path], text_column: str) -> Corpus:
    stamps = [_stamp(path) for path in paths]

    def pieces() -> Iterator[str | None]:
        for path in paths:
            yield from _pieces(path, text_column)

    compressed = any(path.suffix.lower() in (".parquet", ".gz") for path in paths)
    size = None if compressed else sum(path.stat().st_size for path in paths)
    return Corpus(name, (stamps, text_column), pieces, size, tuple(paths))


def _stamp(path: Path) -> tuple[str | int, ...]:
    """Changes whenever the file does; files may be too large to be read each time.

    The time of modification can be set to anything, as copying does; that of the last change of any kind cannot.
    """
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _pieces(path: Path, text_column: str) -> Iterator[str | None]:
    suffix = _suffix(path)
    if suffix == ".parquet":
        found = _documents(_parquet(path, text_column))
    elif suffix in (".jsonl", ".json"):
        found = _documents(_jsonl(path, text_column))
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
            _tell_if_strange(f"line {number} of {path}", line)
        yield line
    yield None


def _tell_if_strange(where: str, line: str) -> None:
    longest = max(map(len, line.split()), default=0)
    if len(line) >= _LONG_LINE or longest >= _LONG_WORD:
        _tell(
            f"note: {where} has {len(line):,} characters, and a word of {longest:,}; is it text? It is read all the "
            f"same; WordPiece knows no words of more than 100 characters, they become [UNK]"
        )


@cache
def _tell(words: str) -> None:
    """Once: a corpus is read several times."""
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


# C4


def _c4(part: str) -> Corpus:
    """English C4 through `datasets`, streamed: nothing is kept but the tokens that are taken of it."""

    def pieces() -> Iterator[str | None]:
        from datasets import load_dataset

        try:
            rows: Any = load_dataset("allenai/c4", "en", split=part, streaming=True)
            yield from _documents(row["text"] for row in rows)
        except Exception as error:  # network, hub: of many kinds
            raise ValueError(
                f"C4 could not be streamed from the hub as allenai/c4 ({type(error).__name__}); check the network, or "
                f"name a folder with its jsonl or parquet files with --data FOLDER"
            ) from error

    return Corpus(f"c4 {part}", ("allenai/c4", "en", part), pieces)
