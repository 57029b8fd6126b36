"""Text corpora: Python's documentation, files, WikiText-2 and C4."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from chimera_lab.data.cache import cache_folder
from chimera_lab.data.files import write_folder
from chimera_lab.data.text_files import TEXT_SUFFIXES, as_documents, note_if_table, read_pieces, text_suffix

_TESTS = ("test", "validation", "valid", "val", "dev")


@dataclass(frozen=True)
class Corpus:
    """Documents, one after the other.

    Attributes:
        name: its name in messages.
        key: identifies the text, for the cache.
        pieces: the text, a line or a document at a time; ``None`` ends a document.
        size: number of characters or bytes, if known.
        files: the files that it is read from.
    """

    name: str
    key: Any
    pieces: Callable[[], Iterator[str | None]]
    size: int | None = None
    files: tuple[Path, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether it is streamed, with unknown length."""
        return self.size is None and not self.files

    def __str__(self) -> str:
        """The name, and the first files if there are several."""
        if len(self.files) < 2:
            return self.name
        further = f" and {len(self.files) - 3} more" if len(self.files) > 3 else ""
        return f"{self.name} ({', '.join(path.name for path in self.files[:3])}{further})"


class Corpora(NamedTuple):
    """Training and test corpus; without a test corpus, a part of the training corpus is held out."""

    train: Corpus
    test: Corpus | None


def load_corpora(data: str, text_column: str) -> Corpora:
    """The corpora of a name, or in a folder.

    Args:
        data: ``pydoc``, ``wikitext-2``, ``c4``, a file, or a folder of files: text, jsonl or parquet, gzipped or not.
            Files and folders with the word test in their names, or else validation, valid, val or dev, are for testing,
            all others for training; vocab.txt is not read.
        text_column: column of the text in jsonl and parquet files.
    """
    if data == "pydoc":
        return Corpora(_pydoc(), None)
    if data == "c4":
        return Corpora(_c4("train"), _c4("validation"))
    if data == "wikitext-2":
        return _wikitext2(text_column)
    path = Path(data).expanduser()
    if path.is_file():
        note_if_table(path)
        return Corpora(_files(str(path), [path], text_column), None)
    if not path.is_dir():
        raise ValueError(
            f"there is no data set, no file and no folder {data!r}; data is pydoc, wikitext-2, c4, a file, or a folder "
            f"of files with one of the endings {' '.join(TEXT_SUFFIXES)}"
        )
    return _folder(path, text_column)


def _pydoc() -> Corpus:
    """The topics of Python's help(): 465,000 characters of English, with examples."""
    from pydoc_data.topics import topics

    texts = [topics[name] for name in sorted(topics)]
    return Corpus("pydoc", ("pydoc", _digest(texts)), lambda: as_documents(texts), sum(map(len, texts)))


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()


# Files


def _wikitext2(text_column: str) -> Corpora:
    folder = cache_folder() / "wikitext-2"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_folder(folder, _write_wikitext2)
    return _folder(folder, text_column)


def _write_wikitext2(folder: Path) -> None:
    """Download WikiText-2, in words as for the published results, and write its three files."""
    from datasets import load_dataset

    try:
        parts: Any = load_dataset("Salesforce/wikitext", "wikitext-2-v1")
    except Exception as error:  # network, hub: of many kinds
        raise ValueError(
            f"WikiText-2 was looked for in {cache_folder() / 'wikitext-2'} and on the hub as Salesforce/wikitext "
            f"({type(error).__name__}); name the folder of its files train.txt, valid.txt and test.txt with --data "
            f"FOLDER"
        ) from error
    for part, name in (("train", "train"), ("validation", "valid"), ("test", "test")):
        (folder / f"{name}.txt").write_text("".join(parts[part]["text"]), encoding="utf-8")


def _folder(folder: Path, text_column: str) -> Corpora:
    files = _found(folder)
    if not files:
        raise ValueError(f"{folder} has no texts: looked for files with one of the endings {' '.join(TEXT_SUFFIXES)}")
    by_part: dict[str, list[Path]] = {}
    for file in files:
        by_part.setdefault(_part(file.relative_to(folder)), []).append(file)
    train = by_part.pop("train", None)
    test = next((by_part[name] for name in _TESTS if name in by_part), None)
    for_testing = None if test is None else _files(str(folder), test, text_column)
    return Corpora(_nothing(folder) if train is None else _files(str(folder), train, text_column), for_testing)


def _nothing(folder: Path) -> Corpus:
    """An empty training corpus, for folders that have test files only."""

    def pieces() -> Iterator[str | None]:
        raise ValueError(f"all files in {folder} are for testing, by their names; others are needed to train on")

    return Corpus(str(folder), ("nothing", str(folder)), pieces, 0)


def _found(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if text_suffix(path) in TEXT_SUFFIXES and path.name != "vocab.txt")
    return sorted(path for path in paths if path.is_file())


def _part(path: Path) -> str:
    """``wiki.test.tokens``, ``dev/a.txt`` and ``validation-00000-of-00001.parquet`` are for testing."""
    words = {word for part in path.parts for word in re.split("[^a-z]+", part.lower())}
    return next((name for name in _TESTS if name in words), "train")


def _files(name: str, paths: list[Path], text_column: str) -> Corpus:
    stamps = [_stamp(path) for path in paths]

    def pieces() -> Iterator[str | None]:
        for path in paths:
            yield from read_pieces(path, text_column)

    compressed = any(path.suffix.lower() in (".parquet", ".gz") for path in paths)
    size = None if compressed else sum(path.stat().st_size for path in paths)
    return Corpus(name, (stamps, text_column), pieces, size, tuple(paths))


def _stamp(path: Path) -> tuple[str | int, ...]:
    """Identifies the version of a file, which may be too large to be read each time.

    The modification time can be set arbitrarily, as by copying; the time of the last status change cannot.
    """
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


# C4


def _c4(part: str) -> Corpus:
    """English C4 through `datasets`, streamed: only the tokens that are used are stored."""

    def pieces() -> Iterator[str | None]:
        from datasets import load_dataset

        try:
            rows: Any = load_dataset("allenai/c4", "en", split=part, streaming=True)
            yield from as_documents(row["text"] for row in rows)
        except Exception as error:  # network, hub: of many kinds
            raise ValueError(
                f"C4 could not be streamed from the hub as allenai/c4 ({type(error).__name__}); check the network, or "
                f"name a folder with its jsonl or parquet files with --data FOLDER"
            ) from error

    return Corpus(f"c4 {part}", ("allenai/c4", "en", part), pieces)
