"""Compressed sparse rows: items grouped by a row index, on NumPy arrays of integers."""

import numpy as np

Array = np.ndarray


def csr(row: Array, num_rows: int) -> tuple[Array, Array]:
    """Group items by row: those of row ``r`` are ``order[begin[r] : begin[r + 1]]``, in ascending order.

    Args:
        row: row of each item, ``[n]``.
        num_rows: R.

    Returns:
        ``begin [R + 1]`` and ``order [n]``.
    """
    return offsets(np.bincount(row, minlength=num_rows)), np.argsort(row, kind="stable")


def offsets(sizes: Array) -> Array:
    """Start of each group of the given sizes, and the end of the last, ``[R + 1]``."""
    begin = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=begin[1:])
    return begin


def ranges(start: Array, stop: Array) -> Array:
    """``arange(start[0], stop[0])``, ``arange(start[1], stop[1])``, …, concatenated."""
    count = stop - start
    first = np.cumsum(count) - count
    return np.arange(count.sum()) + np.repeat(start - first, count)
