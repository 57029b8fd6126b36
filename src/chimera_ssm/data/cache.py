"""Where things that take time to make are kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from filelock import FileLock


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/chimera``, ``~/.cache/chimera`` unless set. It may be removed at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chimera"


def cached(name: str, key: Any, make: Callable[[Path], None]) -> Path:
    """A file made once and found again; whole or not there at all. Of several processes one makes it, others wait.

    Args:
        name: how the file's name begins and, from the first dot, ends.
        key: what the file is a function of; its ``repr`` tells one from another.
        make: writes the file to a path; what it leaves there when it is interrupted, it finds there the next time.
    """
    stem, dot, suffix = name.partition(".")
    path = cache_folder() / f"{stem}-{blake2b(repr(key).encode(), digest_size=16).hexdigest()}{dot}{suffix}"
    if not path.exists():
        aside = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_name(f"{path.name}.lock")):
                if not path.exists():
                    make(aside)
                    aside.replace(path)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(str(cache_folder())):
                raise  # something that was to be read
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; make room there, or name another place with "
                f"XDG_CACHE_HOME"
            ) from error
    return path
