"""The pictures of a maze as HTML: the maze, and the influence on its marked cell in each model."""

from __future__ import annotations

from html import escape

import numpy as np

from chimera_lab.cli.demo.maze import Maze, Panel

#: Colours span shares from this one to the whole, on a logarithmic scale.
LEAST = 1e-4


def figure(maze: Maze, panels: list[Panel]) -> str:
    """All pictures side by side, with one scale of colours."""
    truth = "connected" if maze.connected else "not connected"
    first = _picture(maze, "".join(_cells(maze)), "The maze", f"True answer: {truth}.")
    others = (_picture(maze, _shaded(maze, panel), panel.title, _words(panel)) for panel in panels)
    return (
        f'<figure class="mazes"><div class="row">{first}{"".join(others)}</div>'
        f'<div class="legend"><span>{LEAST:.2%} or less</span><i></i><span>100%</span></div></figure>'
    )


def _picture(maze: Maze, body: str, title: str, words: str) -> str:
    side = maze.size
    return (
        f'<div><svg role="img" viewBox="-.1 -.1 {side + 0.2} {side + 0.2}" aria-label="{escape(f"{title}. {words}")}">'
        f'{body}<path class="region" d="{_border(maze)}"/></svg><p><b>{escape(title)}</b><br>{escape(words)}</p></div>'
    )


def _words(panel: Panel) -> str:
    answer = f" Answer: {panel.answer}." if panel.answer else ""
    where = f"(layer {panel.layer}, head {panel.head})"
    return f"Tells connected cells from others in {panel.separation:.0%} of cases {where}.{answer}"


def _cells(maze: Maze) -> list[str]:
    """The maze itself: walls, free cells and the two marked ones."""
    cells = []
    for k, free in enumerate(maze.free):
        kind = "marked" if k in maze.marked else "free" if free else "wall"
        cells.append(f'<rect class="{kind}" x="{k % maze.size}" y="{k // maze.size}" width="1" height="1"/>')
    return cells


def _shaded(maze: Maze, panel: Panel) -> str:
    """The cells in the colours of their shares; walls have a small square, marked cells a ring."""
    parts = []
    for k, share in enumerate(panel.shares.tolist()):
        x, y = k % maze.size, k // maze.size
        place = min(1.0, max(0.0, 1 - np.log(max(share, LEAST)) / np.log(LEAST)))
        parts.append(f'<rect data-share="{place:.3f}" x="{x}" y="{y}" width="1" height="1"/>')
        if not maze.free[k]:
            parts.append(f'<rect class="wall" x="{x + 0.32}" y="{y + 0.32}" width=".36" height=".36"/>')
    for k in maze.marked:
        parts.append(f'<circle class="ring" cx="{k % maze.size + 0.5}" cy="{k // maze.size + 0.5}" r=".3"/>')
    return "".join(parts)


def _border(maze: Maze) -> str:
    """The border of the cells that are connected with the first marked one, as the path of an SVG."""
    region, side = maze.region.reshape(maze.size, maze.size), maze.size
    strokes = []
    for y, x in np.argwhere(region).tolist():
        for dy, dx, stroke in ((-1, 0, "{0} {1}h1"), (1, 0, "{0} {2}h1"), (0, -1, "{0} {1}v1"), (0, 1, "{3} {1}v1")):
            near = y + dy, x + dx
            if not (min(near) >= 0 and max(near) < side and region[near]):
                strokes.append("M" + stroke.format(x, y, y + 1, x + 1))
    return "".join(strokes)
