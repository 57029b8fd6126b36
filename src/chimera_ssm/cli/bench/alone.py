"""A case in a process of its own: whether memory is new or has been used before depends on what ran earlier."""

from __future__ import annotations

import os
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from chimera_ssm.cli.bench.cases import Case, pick
from chimera_ssm.cli.bench.measure import Comparison, Result, measure

#: glibc's settings for a process that keeps what it frees, as one that works for long does. Otherwise it depends on
#: what lies beside an array whether its memory is handed back after each call: touching it anew takes 4 ms for 10 MB.
_KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


def measure_alone(case: Case, seconds: float, threads: int | None) -> Result:
    """Measure a registered case, with so many threads; as many as PyTorch likes if ``None``."""
    with _inherited(_KEEP_MEMORY), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return Result(case, *pool.submit(_figures, case.name, seconds, threads).result())
        except BrokenProcessPool as error:
            raise ValueError(
                f"{case.name} was ended by the system, which happens where memory is short; leave it out with --only"
            ) from error


@contextmanager
def _inherited(variables: dict[str, str]) -> Generator[None]:
    """Let processes that are started meanwhile have these variables, unless the user has set them."""
    added = variables.keys() - os.environ.keys()
    os.environ.update({name: variables[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _figures(
    name: str, seconds: float, threads: int | None
) -> tuple[Comparison, Comparison | None, tuple[int, int] | None]:
    """What a result says apart from its case, which cannot be sent."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    (case,) = pick([name])
    result = measure(case, seconds)
    return result.forward, result.backward, result.memory
