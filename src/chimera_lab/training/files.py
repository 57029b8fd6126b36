"""Files that are there whole or not at all, and JSON that every reader accepts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any, BinaryIO

from chimera_lab.data.files import reason


def write_durably(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file aside with ``write(file)``, sync it, rename it, sync the folder: it is there whole or not at all."""
    aside = path.with_name(f"{path.name}.part")
    try:
        with open(aside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, RuntimeError) as error:  # torch.save turns a full disk into a RuntimeError
        aside.unlink(missing_ok=True)
        why = error.strerror if isinstance(error, OSError) and error.strerror else _root_reason(error)
        raise OSError(
            f"cannot write {path}: {why}; make room or choose another folder, what was written before is intact"
        ) from error


def _root_reason(error: BaseException) -> str:
    cause = error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(error).splitlines()[0]


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON text. JSON has no NaN and no infinity: they become null."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write a value, which may hold dataclasses, as JSON; the file is there whole or not at all."""
    text = to_json(value, indent=2) + "\n"
    write_durably(path, lambda file: file.write(text.encode()))


def read_json(path: Path, expected: type, remedy: str) -> Any:
    """What a JSON file holds.

    Args:
        path: the file.
        expected: the type of the value.
        remedy: what to do if it cannot be read.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor JSON, or nested too deeply
        raise ValueError(f"{path} is damaged: it is not JSON ({error}); {remedy}") from None
    if not isinstance(value, expected):
        raise ValueError(
            f"{path} is damaged: it holds a {type(value).__name__}, expected a {expected.__name__}; {remedy}"
        )
    return value


def require(folder: Path, *names: str) -> None:
    """Refuse a folder that lacks one of these files."""
    for name in names:
        if not (folder / name).is_file():
            raise FileNotFoundError(ENOENT, "No such file", str(folder / name))


@contextmanager
def reading(folder: Path, remedy: str) -> Generator[None]:
    """Whatever another library raises while it reads a folder becomes one sentence that names the folder."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # of many kinds: of pickles, tensors, tokenizers; Rust's panics are no Exception
        raise ValueError(f"{folder} cannot be read ({type(error).__name__}: {reason(error)}); {remedy}") from error


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
