"""Measuring: work and baseline take turns in one loop, so that whatever slows the machine slows both."""

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
#: Seconds that a turn takes at least. A single call of less than a millisecond would measure what the other side has
#: left behind, cold caches and threads that sleep: an empty parallel region takes 0.2 ms after a dense inverse.
TURN = 0.01


@dataclass(frozen=True)
class Timing:
    """Seconds of a call: the best and the median of several rounds."""

    best: float
    median: float
    rounds: int


@dataclass(frozen=True)
class Comparison:
    """A work beside its baseline, and the ratio to reach, if any."""

    work: Timing
    baseline: Timing
    target: float | None = None

    @property
    def ratio(self) -> float:
        """Of the best times, which other programs on the machine disturb least; below 1 the work is faster."""
        return self.work.best / self.baseline.best

    @property
    def median_ratio(self) -> float:
        """Of the medians."""
        return self.work.median / self.baseline.median

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; ``None`` if there is none."""
        return None if self.target is None else self.ratio <= self.target


@dataclass(frozen=True)
class Result:
    """A measured case; ``backward`` is forward + backward, ``None`` where there is no backward.

    ``memory`` is the extra memory of forward + backward in bytes, work and baseline, where it is asked for.
    """

    case: Case
    forward: Comparison
    backward: Comparison | None
    memory: tuple[int, int] | None = None


def take_turns(functions: Sequence[Callable[[], object]], seconds: float) -> list[Timing]:
    """Time functions in turns for about ``seconds`` in all, after a first call of each.

    In its turn a function is called again and again until `TURN` is over, and its time is the mean. Three rounds at
    least, unless these would take more than three times as long.
    """
    for function in functions:
        function()  # compiles kernels, finds plans, fills caches
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
    """Measure a case, forward and, if it has one, forward + backward, each for half of the time."""
    work, baseline = case.work.build(), case.baseline.build()
    forward = Comparison(*take_turns([work.forward, baseline.forward], seconds / 2), case.forward)
    if case.forward_only:
        return Result(case, forward, None)
    both = take_turns([work.forward_backward, baseline.forward_backward], seconds / 2)
    memory = (extra_memory(work.forward_backward), extra_memory(baseline.forward_backward)) if case.memory else None
    return Result(case, forward, Comparison(*both, case.backward), memory)
