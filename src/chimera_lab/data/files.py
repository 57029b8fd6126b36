"""Reading the user's files, gzipped or not, and writing files atomically; errors name the file and the cause."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if its name ends in .gz."""
    with _opened(path) as file:
        return file.read()


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, each with its number; the first without a byte order mark."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path} is not UTF-8 text: line {number} has the byte 0x{line[error.start]:02x} where no "
                    f"character begins or continues; convert the file, for example with iconv"
                ) from None


def reason(error: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
            yield cast("BinaryIO", file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}; copy it again") from None


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file through ``write(file)`` into path.part, sync it and rename it: the file is complete or absent."""
    part = path.with_name(f"{path.name}.part")
    try:
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, RuntimeError) as error:  # torch.save turns a full disk into a RuntimeError
        part.unlink(missing_ok=True)
        why = error.strerror if isinstance(error, OSError) and error.strerror else _root_reason(error)
        raise OSError(
            f"cannot write {path}: {why}; make room or choose another folder, what was written before is intact"
        ) from error


def _root_reason(error: BaseException) -> str:
    cause = error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(error).splitlines()[0]


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Create a folder through ``write(path)`` in folder.part and rename it: the folder is complete or absent."""
    part = folder.with_name(f"{folder.name}.part")
    _remove(part)
    part.mkdir()
    write(part)
    _remove(folder)
    part.rename(folder)


def _remove(path: Path) -> None:
    """Remove a folder or a file if it exists; of a symbolic link, the link and not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
