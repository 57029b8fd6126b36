"""A case in a process of its own, with its ordinary settings: what malloc does depends on what ran earlier."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from chimera_lab.cli.bench.cases import Case, pick
from chimera_lab.cli.bench.measure import Comparison, Result, measure


def measure_alone(case: Case, seconds: float, threads: int | None) -> Result:
    """Measure a registered case, with so many threads; as many as PyTorch likes if ``None``."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return Result(case, *pool.submit(_figures, case.name, seconds, threads).result())
        except BrokenProcessPool as error:
            raise ValueError(
                f"{case.name} was ended by the system, which happens where memory is short; leave it out with --only"
            ) from error


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
