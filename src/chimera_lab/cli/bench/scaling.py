"""Time and peak memory against the number of nodes: the points of the plot, each measured in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from chimera_lab.cli.bench.point import DOES_NOT_FIT

SIZES = tuple(2**k for k in range(8, 17))
_TIMEOUT = 180.0  # seconds for a process, which includes imports, planning and compilation


@dataclass(frozen=True)
class Point:
    """Forward + backward on ``num_nodes`` nodes."""

    curve: str
    num_nodes: int
    seconds: float
    bytes: float


@dataclass(frozen=True)
class ScalingPlan:
    """Sizes to measure, seconds to spend on a point, and the longest time that a call may take."""

    sizes: tuple[int, ...] = SIZES
    seconds: float = 1.0
    limit: float = 10.0


QUICK = ScalingPlan(sizes=SIZES[:6:2], seconds=0.2, limit=2.0)


def measure_curve(curve: str, plan: ScalingPlan, threads: int) -> Iterator[Point]:
    """The points of a curve, until one does not fit or the next is expected to exceed the time limit."""
    last: Point | None = None
    for num_nodes in plan.sizes:
        point = _measure(curve, num_nodes, plan.seconds, threads)
        if point is None:
            return
        yield point
        growth = 1.0 if last is None else point.seconds / last.seconds
        if point.seconds * growth > plan.limit:
            return
        last = point


def _measure(curve: str, num_nodes: int, seconds: float, threads: int) -> Point | None:
    command = [sys.executable, "-m", "chimera_lab.cli.bench.point", curve, str(num_nodes), str(seconds), str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == DOES_NOT_FIT or done.returncode < 0:  # negative: killed by the system, out of memory
        return None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{curve} with {num_nodes:,} nodes failed: {reason}")
    return Point(curve, num_nodes, **json.loads(done.stdout))
