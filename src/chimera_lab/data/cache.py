"""Where things that take time to make are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from filelock import FileLock


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/chimera``, ``~/.cache/chimera`` unless set. It may be removed at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chimera"


def plain_name(name: str, what: str) -> str:
    """A name that may become part of a path in the cache; one that could lead elsewhere is refused.

    Args:
        name: as the user typed it.
        what: of what it is the name, for the message.
    """
    if not re.fullmatch(r"\w[\w.+ -]*", name, re.ASCII):
        raise ValueError(
            f"the name of {what} may have letters, digits and _ . + - between them, as in Peptides-func; found {name!r}"
        )
    return name


def cached(name: str, key: Any, make: Callable[[Path], None]) -> Path:
    """A file made once and found again; whole or not there at all. Of several processes one makes it, others wait.

    A digest beside the file tells whether it is as it was made: a file that was damaged or edited is made anew.

    Args:
        name: how the file's name begins and, from the first dot, ends.
        key: what the file is a function of; its ``repr`` tells one from another.
        make: writes the file to a path; what it leaves there when it is interrupted, it finds there the next time.
    """
    stem, dot, suffix = name.partition(".")
    path = cache_folder() / f"{stem}-{blake2b(repr(key).encode(), digest_size=16).hexdigest()}{dot}{suffix}"
    if not _is_whole(path):
        aside = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_name(f"{path.name}.lock")):
                if not _is_whole(path):
                    make(aside)
                    _seal(path).write_text(content_digest(aside))
                    aside.replace(path)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(str(cache_folder())):
                raise  # something that was to be read
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; make room there, or name another place with "
                f"XDG_CACHE_HOME"
            ) from error
    return path


def _is_whole(path: Path) -> bool:
    return path.is_file() and _seal(path).is_file() and _seal(path).read_bytes() == content_digest(path).encode()


def _seal(path: Path) -> Path:
    """The file beside a file that holds its digest."""
    return path.with_name(f"{path.name}.blake2b")


def content_digest(path: Path) -> str:
    """A digest of what is in a file."""
    with path.open("rb") as file:
        return file_digest(file, blake2b).hexdigest()
