"""The results of a benchmark run as JSON and as a page of the documentation."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chimera_lab.cli.bench.measure import TURN, Result, TimeRatio
from chimera_lab.cli.bench.scaling import Point
from chimera_lab.cli.bench.table import HEADER, LEGEND, ratio_text, rows, target_text

#: What follows this comment on a page is written by hand and kept.
BY_HAND = "<!-- by hand -->"


@dataclass(frozen=True)
class BenchmarkRun:
    """All results of a run, and how they were measured."""

    command_line: str
    threads: int
    seconds: float
    results: Sequence[Result]
    points: Sequence[Point]
    machine: dict[str, str]


def describe_machine() -> dict[str, str]:
    """Processor, memory, system, versions, and the load before measuring."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
    } | {name: version(name) for name in ("chimera-ssm", "torch", "numpy", "numba")}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def as_json(run: BenchmarkRun) -> dict[str, Any]:
    """The whole run as plain data; times in seconds."""
    return {
        "command": run.command_line,
        "machine": run.machine,
        "threads": run.threads,
        "seconds_per_case": run.seconds,
        "cases": [
            {
                "name": r.case.name,
                "what": r.case.what,
                "against": r.case.against,
                "forward": _ratio(r.forward),
                "forward_backward": None if r.backward is None else _ratio(r.backward),
                "memory": r.memory,
            }
            for r in run.results
        ],
        "scaling": [asdict(p) for p in run.points],
    }


def _ratio(ratio: TimeRatio) -> dict[str, Any]:
    return {"ratio": ratio.ratio, "median_ratio": ratio.median_ratio, "met": ratio.met} | asdict(ratio)


def as_page(run: BenchmarkRun, picture: str | None) -> str:
    """The page in Markdown; ``picture`` is the path of the plot as seen from the page."""
    return "\n".join(_page(run, picture)) + "\n"


def by_hand(page: str) -> str:
    """The part of a page from `BY_HAND` on, which is kept when the page is written again."""
    _, mark, added = page.partition(BY_HAND)
    return f"\n{mark}{added}" if mark else ""


def _page(run: BenchmarkRun, picture: str | None) -> Iterator[str]:
    yield from ("# Performance", "", "Written by this command, on this machine:", "", f"    {run.command_line}", "")
    yield from ("| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in run.machine.items())
    yield f"| threads | {run.threads} |"
    yield from ("", "## Against the baselines", "")
    yield (
        f"Workload and baseline alternate in turns of {1000 * TURN:g} ms, or one call if it takes longer, for about "
        f"{run.seconds:g} s. Each case runs in a separate process without malloc settings. {LEGEND}"
    )
    yield "Float32, random data; unless stated otherwise 12 heads, N = P = 64, batch 1, and heads share B and C."
    yield from ("", f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|")
    yield from (f"| {' | '.join(cells)} |" for cells in rows(run.results))
    yield ""
    yield from _notes(run.results)
    if picture is not None:
        yield from ("", "## Scaling", "", f"![Time and peak extra memory against the number of nodes]({picture})", "")
        yield "Forward + backward, 12 heads, N = P = 64, batch 1, each point in a separate process. Memory is what a"
        yield "call needs beyond its inputs, after kernels are compiled and caches are filled. A curve ends where the"
        yield "next point would take too long or does not fit."


def _notes(results: Sequence[Result]) -> Iterator[str]:
    compared = [
        (f"`{result.case.name}`, {pass_name}", ratio)
        for result in results
        for pass_name, ratio in (("forward", result.forward), ("forward + backward", result.backward))
        if ratio is not None
    ]
    for result in results:
        if result.memory is not None:
            ours, theirs = result.memory
            yield f"`{result.case.name}` needs {ours / 2**30:.2f} GiB beyond the weights, {result.case.against} "
            yield f"{theirs / 2**30:.2f}: ratio {ours / theirs:.2f}."
            yield ""
    missed = [(name, ratio) for name, ratio in compared if ratio.met is False]
    judged = sum(ratio.met is not None for _, ratio in compared)
    if not missed:
        yield f"All {judged} targets are met."
        return
    yield f"{judged - len(missed)} of {judged} targets are met. Missed:"
    yield ""
    for name, ratio in missed:
        times = f"{ratio.ratio / ratio.target:.1f}" if ratio.target else "?"
        yield f"- {name}: {ratio_text(ratio.ratio)}, target {target_text(ratio.target)}, {times} × too slow"
