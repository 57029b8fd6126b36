"""JSON files, and errors raised while a folder is read."""

from __future__ import annotations

import json
import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any

from chimera_lab.data.files import reason, write_atomically


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON text; NaN and infinity, which JSON lacks, become null."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write a value, which may contain dataclasses, as JSON; the file is complete or absent."""
    text = to_json(value, indent=2) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path, expected: type, remedy: str) -> Any:
    """Read a JSON file.

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
    """Raise FileNotFoundError if a folder lacks one of these files."""
    for name in names:
        if not (folder / name).is_file():
            raise FileNotFoundError(ENOENT, "No such file", str(folder / name))


@contextmanager
def reading(folder: Path, remedy: str) -> Generator[None]:
    """Turn any error of another library that reads a folder into a ValueError that names the folder."""
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
