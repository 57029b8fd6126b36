"""Curves as SVG for pages, in the colours of the page, which has a light and a dark scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 220, 44, 12, 26, 34


def curves(title: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], x: str, percent: bool) -> str:
    """Curves in one diagram: the first is ours, the last, dashed, is the baseline's; of three, the second is dotted.

    Args:
        title: label of the vertical axis.
        series: for each name the horizontal and vertical coordinates of its points.
        x: label of the horizontal axis.
        percent: whether values are fractions, shown in per cent.
    """
    xs, ys = ([v for line in series.values() for v in line[k]] for k in (0, 1))
    low, high = min(0.0, *ys), max(ys) or 1.0

    def at(px: float, py: float) -> tuple[float, float]:
        across = _LEFT + (_WIDE - _LEFT - _RIGHT) * px / (max(xs) or 1)
        return across, _HIGH - _BOTTOM - (_HIGH - _TOP - _BOTTOM) * (py - low) / (high - low)

    parts = [f'<text x="{_LEFT}" y="14">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        value = low + share * (high - low)
        y = at(0, value)[1]
        text = f"{value:.0%}" if percent else f"{value:.3g}"
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(f'<text x="{_WIDE - _RIGHT}" y="{_HIGH - 18}" text-anchor="end">{max(xs):,.0f} {escape(x)}</text>')
    left, kinds = _LEFT, ("ours", "second", "baseline") if len(series) == 3 else ("ours", "baseline")[: len(series)]
    for kind, (name, (px, py)) in zip(kinds, series.items(), strict=True):
        points = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in zip(px, py, strict=True))
        parts.append(f'<polyline class="{kind}-line" points="{points}"/>')
        sample = f"{left},{_HIGH - 8} {left + 22},{_HIGH - 8}"
        parts.append(f'<polyline class="{kind}-line" points="{sample}"/>')
        parts.append(f'<text class="{kind}-name" x="{left + 28}" y="{_HIGH - 4}">{escape(name)}</text>')
        left += 44 + 7 * len(name)  # the approximate width of the name
    words = "; ".join(f"{name}: {py[0]:.3g} to {py[-1]:.3g}" for name, (_, py) in series.items())
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDE} {_HIGH}" aria-label="{escape(f"{title}. {words}")}">'
        + "".join(parts)
        + "</svg>"
    )
