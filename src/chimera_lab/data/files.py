"""The user's files, gzipped or not; of those that cannot be read, a sentence says which and why."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast


def read_bytes(path: Path) -> bytes:
    """All of a file, unpacked if its name ends in .gz."""
    with _unpacked(path) as file:
        return file.read()


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, each with its number; the first without a byte order mark."""
    with _unpacked(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path} is not UTF-8 text: line {number} has the byte 0x{line[error.start]:02x} where no "
                    f"character begins or goes on; convert the file, for example with iconv"
                ) from None


def reason(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _unpacked(path: Path) -> Generator[BinaryIO]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
            yield cast("BinaryIO", file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}; copy it again") from None
