"""Measure a workload and its baseline alternately, so that whatever slows the machine slows both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from chimera_lab.cli.bench.memory import extra_memory

if TYPE_CHECKING:
    from chimera_lab.cli.bench.cases import Case

MIN_ROUNDS = 3
#: Least seconds of a turn. A single call of less than a millisecond would measure the state that the other side left:
#: cold caches and sleeping threads (an empty parallel region takes 0.2 ms after a dense inverse).
TURN = 0.01


@dataclass(frozen=True)
class Timing:
    """Seconds of a call: the best and the median of several rounds."""

    best: float
    median: float
    rounds: int


@dataclass(frozen=True)
class TimeRatio:
    """The time of a workload relative to its baseline, and the target ratio, if any."""

    workload: Timing
    baseline: Timing
    target: float | None = None

    @property
    def ratio(self) -> float:
        """Ratio of the best times, which other programs disturb least; below 1 the workload is faster."""
        return self.workload.best / self.baseline.best

    @property
    def median_ratio(self) -> float:
        """Ratio of the median times."""
        return self.workload.median / self.baseline.median

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; ``None`` if there is none."""
        return None if self.target is None else self.ratio <= self.target


@dataclass(frozen=True)
class Result:
    """A measured case; ``backward`` is forward + backward, ``None`` where there is no backward.

    ``memory`` is the extra memory of forward + backward in bytes, of workload and baseline, if it was measured.
    """

    case: Case
    forward: TimeRatio
    backward: TimeRatio | None
    memory: tuple[int, int] | None = None


def take_turns(functions: Sequence[Callable[[], object]], seconds: float) -> list[Timing]:
    """Time functions alternately for about ``seconds`` in total, after a first call of each.

    In its turn a function is called repeatedly until `TURN` has passed, and the mean time is recorded. There are at
    least three rounds, unless these would take more than three times ``seconds``.
    """
    for function in functions:
        function()  # compiles kernels, plans, and fills caches
    times: list[list[float]] = []
    begin = perf_counter()
    while (elapsed := perf_counter() - begin) < seconds or len(times) < MIN_ROUNDS:
        if times and elapsed > MIN_ROUNDS * seconds:
            break
        times.append([_time(function) for function in functions])
    return [Timing(min(spent), median(spent), len(spent)) for spent in zip(*times, strict=True)]


def _time(function: Callable[[], object]) -> float:
    start, calls, elapsed = perf_counter(), 0, 0.0
    while not calls or elapsed < TURN:
        function()
        calls, elapsed = calls + 1, perf_counter() - start
    return elapsed / calls


def measure(case: Case, seconds: float) -> Result:
    """Measure a case, forward and, unless it is forward only, forward + backward, each for half of the time."""
    workload, baseline = case.workload.build(), case.baseline.build()
    forward = TimeRatio(*take_turns([workload.forward, baseline.forward], seconds / 2), case.forward)
    if case.forward_only:
        return Result(case, forward, None)
    both = take_turns([workload.forward_backward, baseline.forward_backward], seconds / 2)
    memory = (extra_memory(workload.forward_backward), extra_memory(baseline.forward_backward)) if case.memory else None
    return Result(case, forward, TimeRatio(*both, case.backward), memory)
