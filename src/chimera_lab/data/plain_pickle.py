"""Splits that are stored as pickles, read without executing code."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chimera_lab.data.files import reason

Array = np.ndarray


def read_split(path: Path) -> dict[str, Array]:
    """Indices of train, val and test from a pickled dictionary of lists or arrays; anything else is refused."""
    content = path.read_bytes()
    try:
        split = _PlainUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(
            f"{path} is not a split of plain lists or arrays: {reason(error)}; pickle a dictionary of lists of integers"
        ) from None
    if not isinstance(split, dict) or not {"train", "val", "test"} <= set(split):
        raise ValueError(f"{path} should hold a dictionary with train, val and test, found {_words(split)}")
    parts = {name: _indices(split[name]) for name in ("train", "val", "test")}
    for name, part in parts.items():
        if not part.size or part.min() < 0:
            raise ValueError(f"{path} should hold indices in {name}, found {_words(split[name])}")
    if sum(map(len, parts.values())) != len(np.unique(np.concatenate(list(parts.values())))):
        raise ValueError(f"{path} has indices that are in more than one part")
    return parts


def _indices(value: Any) -> Array:
    """A list or array of integers as int64 ``[n]``; empty for anything else."""
    try:
        found = np.asarray(value)
        if found.ndim == 1 and np.issubdtype(found.dtype, np.integer):
            return np.array(found.tolist(), np.int64)
    except (ValueError, OverflowError):  # lists of unequal length, numbers that are too large
        pass
    return np.empty(0, np.int64)


def _words(value: Any) -> str:
    return f"{type(value).__name__} {sorted(map(str, value))[:5]}" if isinstance(value, dict) else type(value).__name__


_KNOWN: dict[int, Any] = pickle._Unpickler.dispatch


class _PlainUnpickler(pickle._Unpickler):
    """Unpickles plain containers and NumPy arrays of integers only; other classes could execute code.

    It uses the Python implementation and no NumPy classes, whose C code crashes on damaged pickles.
    """

    # Read as bytes: bytearrays are allocated first, with whatever length a damaged pickle declares.
    dispatch: ClassVar = _KNOWN | {pickle.BYTEARRAY8[0]: _KNOWN[pickle.BINBYTES8[0]]}

    def find_class(self, module: str, name: str) -> Any:
        known = _PLAIN.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise pickle.UnpicklingError(f"it holds {module}.{name}")
        return known


class _Type:
    """Stands for an integer dtype of NumPy."""

    def __init__(self, code: str, *_: Any):
        if not re.fullmatch("[iu][1248]", code):
            raise pickle.UnpicklingError(f"it holds numbers of the type {code}, expected integers")
        self.code, self.order = code, "<"

    def __setstate__(self, state: tuple) -> None:
        self.order = {"|": "<"}.get(state[1], state[1])

    def read(self, content: bytes) -> list[int]:
        return np.frombuffer(content, np.dtype(self.order + self.code)).tolist()


class _Integers(list):
    """Stands for a NumPy array of integers ``[n]``."""

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, _, content = state
        self[:] = kind.read(content)
        if shape != (len(self),):
            raise pickle.UnpicklingError(f"it holds {len(self)} numbers as an array of the shape {shape}")


_PLAIN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Integers,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Integers(),
    ("numpy.core.multiarray", "scalar"): lambda kind, content: kind.read(content)[0],
    ("numpy.core.numeric", "_frombuffer"): lambda content, kind, *_: _Integers(kind.read(content)),
    ("_codecs", "encode"): lambda text, *_: text.encode("latin1"),
}
