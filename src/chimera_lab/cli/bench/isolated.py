"""Measure a case in a separate process: the behaviour of malloc depends on what a process ran before."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from chimera_lab.cli.bench.cases import Case, pick
from chimera_lab.cli.bench.measure import Result, TimeRatio, measure


def measure_isolated(case: Case, seconds: float, threads: int | None) -> Result:
    """Measure a registered case in a new process with ``threads`` threads; PyTorch's default if ``None``."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return Result(case, *pool.submit(_figures, case.name, seconds, threads).result())
        except BrokenProcessPool as error:
            raise ValueError(
                f"{case.name} was killed by the system, probably because memory ran out; select other cases with --only"
            ) from error


def _figures(
    name: str, seconds: float, threads: int | None
) -> tuple[TimeRatio, TimeRatio | None, tuple[int, int] | None]:
    """The fields of a `Result` except for its case, which cannot be pickled."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    (case,) = pick([name])
    result = measure(case, seconds)
    return result.forward, result.backward, result.memory
