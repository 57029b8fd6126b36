"""The cache of files that take long to compute."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

T = TypeVar("T")


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/chimera``, by default ``~/.cache/chimera``. It may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chimera"


def plain_name(name: str, what: str) -> str:
    """Refuse a name that could lead out of the cache when it becomes part of a path.

    Args:
        name: as the user typed it.
        what: the named thing, for the message.
    """
    if not re.fullmatch(r"\w[\w.+ -]*", name, re.ASCII):
        raise ValueError(
            f"the name of {what} may have letters, digits and _ . + - between them, as in Peptides-func; found {name!r}"
        )
    return name


def cached(name: str, key: Any, make: Callable[[Path], None]) -> Path:
    """The path of a cached file, which is computed if it is missing. One process computes it while others wait.

    A digest is stored beside the file; a file that was damaged or edited is computed again.

    Args:
        name: start of the file's name and, from the first dot, its ending.
        key: what the file is a function of, distinguished by its ``repr``.
        make: writes the file to a path. An interrupted call may leave a partial file there, which the next call finds.
    """
    stem, dot, suffix = name.partition(".")
    path = cache_folder() / f"{stem}-{blake2b(repr(key).encode(), digest_size=16).hexdigest()}{dot}{suffix}"
    if not _is_intact(path):
        part = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_name(f"{path.name}.lock")):
                if not _is_intact(path):
                    make(part)
                    _digest_path(path).write_text(content_digest(part))
                    part.replace(path)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(str(cache_folder())):
                raise  # an input of make
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; make room there, or name another place with "
                f"XDG_CACHE_HOME"
            ) from error
    return path


def cached_value(
    name: str, key: Any, make: Callable[[], T], save: Callable[[T, Path], None], load: Callable[[Path], T]
) -> T:
    """A value from its file in the cache, or computed and written there; without a writable cache, computed.

    Args:
        name: see `cached`.
        key: see `cached`.
        make: computes the value.
        save: writes it to a path.
        load: reads what ``save`` wrote.
    """
    made: list[T] = []

    def write(path: Path) -> None:
        made.append(make())
        save(made[0], path)

    with suppress(OSError):  # a full or read-only disk
        path = cached(name, key, write)
        return made[0] if made else load(path)
    return made[0] if made else make()


def _is_intact(path: Path) -> bool:
    return (
        path.is_file()
        and _digest_path(path).is_file()
        and _digest_path(path).read_bytes() == content_digest(path).encode()
    )


def _digest_path(path: Path) -> Path:
    """The file that holds the digest of another."""
    return path.with_name(f"{path.name}.blake2b")


def content_digest(path: Path) -> str:
    """A digest of a file's content."""
    with path.open("rb") as file:
        return file_digest(file, blake2b).hexdigest()
