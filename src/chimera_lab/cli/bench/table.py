"""The table of results: the same cells in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chimera_lab.cli.bench.measure import Result, TimeRatio, Timing

if TYPE_CHECKING:
    from rich.table import Table

HEADER = ("case", "what", "forward", "target", "forward + backward", "target", "forward, ms", "forward + backward, ms")
LEGEND = (
    "Ratios are workload / baseline, of the best times: below 1 the workload is faster. "
    "Times are workload / baseline, best (median)."
)


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The cells of each result, in the order of `HEADER`."""
    return [
        (
            result.case.name,
            f"{result.case.what}, against {result.case.against}",
            *_ratio_and_target(result.forward),
            *_ratio_and_target(result.backward),
            _times(result.forward),
            _times(result.backward),
        )
        for result in results
    ]


def rich_table(results: Sequence[Result]) -> Table:
    """The table for a terminal, with green ticks and red crosses."""
    from rich.table import Table
    from rich.text import Text

    table = Table(caption=LEGEND, caption_justify="left")
    for k, name in enumerate(HEADER):
        table.add_column(name, justify="left" if k < 2 else "right", no_wrap=k != 1, overflow="fold")
    for row in rows(results):
        table.add_row(*(Text(cell, _colour(cell)) for cell in row))
    return table


def ratio_text(ratio: float) -> str:
    """``1.23``; below 1 also as a fraction, ``0.14 (1/7.2)``."""
    if ratio >= 1:
        return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"
    return f"{ratio:.2g} (1/{_short(1 / ratio)})"


def target_text(target: float | None) -> str:
    """``0.95``, ``1/6.5``, or a dash if there is no target."""
    if target is None:
        return "–"
    return f"1/{1 / target:.3g}" if target < 0.5 else f"{target:g}"


def _ratio_and_target(ratio: TimeRatio | None) -> tuple[str, str]:
    if ratio is None:
        return "–", "–"
    mark = {True: " ✓", False: " ✗", None: ""}[ratio.met]
    return ratio_text(ratio.ratio) + mark, target_text(ratio.target)


def _times(ratio: TimeRatio | None) -> str:
    return "–" if ratio is None else f"{_milliseconds(ratio.workload)} / {_milliseconds(ratio.baseline)}"


def _milliseconds(timing: Timing) -> str:
    return f"{_short(1e3 * timing.best)} ({_short(1e3 * timing.median)})"


def _short(x: float) -> str:
    """At least two digits, without an exponent."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 1 else f"{x:.2f}"


def _colour(cell: str) -> str:
    return "green" if cell.endswith("✓") else "red" if cell.endswith("✗") else ""
