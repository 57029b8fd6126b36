"""Threads for kernels: ranges of tasks on a pool of our own.

Numba's threading layers either die in a forked child or abort when two Python threads enter. Kernels here are serial,
release the interpreter lock, and are called as ``kernel(first, last, …)`` on ranges of tasks. The ranges depend on the
number of threads only, and tasks do not share what they write, so that results are the same from run to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import inf
from threading import Lock
from typing import Any

import torch

#: Multiplications that take about as long as waking a thread.
_WORTH_A_THREAD = 200_000

_pool: ThreadPoolExecutor | None = None
_lock = Lock()


def _forget() -> None:
    """In a forked child the parent's threads do not exist: start anew when needed."""
    global _pool, _lock
    _pool, _lock = None, Lock()


os.register_at_fork(after_in_child=_forget)


def run_each(calls: list[tuple[Callable[..., Any], tuple[Any, ...]]], tasks: int, work: float = inf) -> None:
    """`run` for several kernels on the same tasks, one after the other in each thread, without waiting between them."""

    def all_of_them(first: int, last: int) -> None:
        for kernel, args in calls:
            kernel(first, last, *args)

    run(all_of_them, tasks, work=work)


def run(kernel: Callable[..., Any], tasks: int, *args: Any, work: float = inf) -> None:
    """Call ``kernel(first, last, *args)`` on ranges that cover ``tasks``, on as many threads as PyTorch may use.

    ``work`` is about how many multiplications there are: little work is done at once, without waking anybody.
    """
    threads = min(threads_for(work), tasks)
    bounds = [tasks * k // threads for k in range(threads + 1)]
    if threads == 1:
        kernel(0, tasks, *args)
        return
    others = [_workers().submit(kernel, a, b, *args) for a, b in pairwise(bounds[1:])]
    try:
        kernel(bounds[0], bounds[1], *args)
    finally:
        for other in others:
            other.result()


def threads_for(work: float) -> int:
    """How many threads so many multiplications are worth."""
    return int(min(torch.get_num_threads(), 1 + work // _WORTH_A_THREAD))


def _workers() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 1)), thread_name_prefix="chimera")
        return _pool
