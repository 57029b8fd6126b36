"""Threads for kernels: ranges of tasks on a pool of our own.

Numba's threading layers either die in a forked child or abort when two Python threads enter. Kernels here are serial,
release the interpreter lock, and are called as ``kernel(first, last, …)`` on ranges of tasks. The ranges depend on the
number of threads only, and tasks do not share what they write, so that results are the same from run to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import torch

_pool: ThreadPoolExecutor | None = None
_lock = Lock()


def _forget() -> None:
    """In a forked child the parent's threads do not exist: start anew when needed."""
    global _pool, _lock
    _pool, _lock = None, Lock()


os.register_at_fork(after_in_child=_forget)


def run(kernel: Callable[..., Any], tasks: int, *args: Any, parallel: bool = True) -> None:
    """Call ``kernel(first, last, *args)`` on ranges that cover ``tasks``, on as many threads as PyTorch may use."""
    threads = min(torch.get_num_threads(), tasks) if parallel else 1
    bounds = [tasks * k // threads for k in range(threads + 1)]
    if threads == 1:
        kernel(0, tasks, *args)
        return
    others = [_workers().submit(kernel, a, b, *args) for a, b in zip(bounds[1:], bounds[2:], strict=False)]
    try:
        kernel(bounds[0], bounds[1], *args)
    finally:
        for other in others:
            other.result()


def _workers() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 1)), thread_name_prefix="chimera")
        return _pool
