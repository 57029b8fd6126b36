"""Threads for kernels: ranges of tasks on PyTorch's OpenMP threads, or on our own pool.

Numba's threading layers either die in a forked child or abort when two Python threads enter, and threads of another
pool compete with PyTorch's, which keep spinning for a while after each operation. Kernels here are serial, release the
interpreter lock, and are called as ``kernel(first, last, …)`` on ranges of tasks, by the threads that PyTorch has
already has. Where its OpenMP library cannot be found, and in forked children, where its threads do not exist, our own
pool takes over. The ranges depend on the number of threads only, and tasks do not share what they write, so that
results are the same from run to run.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from chimera_ssm.cpu.denormals import denormals_as_zero

#: Multiplications that take about as long as waking a thread, which is a tenth of a millisecond.
_WORTH_A_THREAD = 1_000_000
_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_forked = False
_pool: ThreadPoolExecutor | None = None
_lock = Lock()


def _start_anew() -> None:
    """In a forked child the parent's threads do not exist."""
    global _forked, _pool, _lock
    _forked, _pool, _lock = True, None, Lock()


os.register_at_fork(after_in_child=_start_anew)


def run(kernel: Callable[..., Any], tasks: int, *args: Any, work: float = inf) -> None:
    """Call ``kernel(first, last, *args)`` on ranges that cover ``tasks``, on as many threads as PyTorch may use.

    ``work`` is the approximate number of multiplications: little work is done in the calling thread.
    """
    threads = min(threads_for(work), tasks)

    if threads == 1:
        with denormals_as_zero():
            kernel(0, tasks, *args)
        return

    def share(k: int, n: int) -> None:
        with denormals_as_zero():
            kernel(tasks * k // n, tasks * (k + 1) // n, *args)

    if not _forked and (openmp := _openmp()) is not None:
        _run_on_openmp(openmp, threads, share)
    else:
        _run_on_pool(threads, share)


def run_each(calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]], tasks: int, work: float = inf) -> None:
    """`run` for several kernels on the same tasks, one after the other in each thread, without a barrier in between."""

    def run_all(first: int, last: int) -> None:
        for kernel, args in calls:
            kernel(first, last, *args)

    run(run_all, tasks, work=work)


def threads_for(work: float) -> int:
    """Number of threads that pay off for this many multiplications."""
    return int(min(torch.get_num_threads(), 1 + work // _WORTH_A_THREAD))


def _run_on_openmp(openmp: ctypes.CDLL, threads: int, share: Callable[[int, int], Any]) -> None:
    """``share(k, n)`` on each thread k of a team of n, which may be smaller than asked for."""
    errors: list[BaseException] = []

    def body(_: Any) -> None:
        try:
            share(openmp.omp_get_thread_num(), openmp.omp_get_num_threads())
        except BaseException as error:
            errors.append(error)

    openmp.GOMP_parallel(_Body(body), None, threads, 0)
    if errors:
        raise errors[0]


@lru_cache(maxsize=1)
def _openmp() -> ctypes.CDLL | None:
    """The OpenMP library that PyTorch has loaded; other packages may have loaded their own copies."""
    maps = Path("/proc/self/maps")
    found = re.findall(r"/\S*lib[gi]omp\S*\.so\S*", maps.read_text()) if maps.exists() else []
    for path in sorted(set(found), key=lambda path: "torch" not in path):
        library = ctypes.CDLL(path)
        if hasattr(library, "GOMP_parallel"):
            return library
    return None


def _run_on_pool(threads: int, share: Callable[[int, int], Any]) -> None:
    others = [_workers().submit(share, k, threads) for k in range(1, threads)]
    try:
        share(0, threads)
    finally:
        for other in others:
            other.result()


def _workers() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, os.cpu_count() or 1), thread_name_prefix="chimera")
        return _pool
