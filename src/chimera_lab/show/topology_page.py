"""The interactive page of a topology: influence, and its DAGs with their levels."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from chimera_lab.show import page as html
from chimera_lab.show.topologies import STEP, TopologyView
from chimera_ssm.topology import Topology


def page(shown: TopologyView) -> str:
    """An interactive page."""
    return html.document(
        shown.view.scene.title,
        f"<h1>{escape(shown.view.scene.title)}</h1>",
        f"<p>{escape(shown.summary)}</p>",
        "<h2>Influence</h2>",
        "<p>The resolvent (I − A)⁻¹ sums influence over all paths; row i of the matrix is the influence of all nodes "
        f"on node i. Here every node has the step size {STEP}; a model computes one for each node. Point at a node or "
        "a row.</p>",
        html.figure(shown.view),
        "<h2>DAGs and levels</h2>",
        "<p>The numbers are levels: the length of the longest path that ends in a node. A sweep processes the levels "
        "in order.</p>",
        '<div class="charts">',
        *(_dag_svg(dag, shown.view.scene.drawing["places"], f"DAG {k + 1}") for k, dag in enumerate(shown.dags)),
        "</div>",
    )


def _dag_svg(dag: Topology, places: list[Any], title: str) -> str:
    """One acyclic topology: edges as arrows, and the level of each node as number and shade."""
    at, levels = np.array(places), dag.levels.tolist()
    wide, high = (at.max(0) + 1.2).tolist()
    lines = []
    for a, b in dag.edge_index.t().tolist():
        way = (at[b] - at[a]) / max(np.linalg.norm(at[b] - at[a]), 1e-9)
        tip, side = at[b] - 0.34 * way, np.array([-way[1], way[0]])
        head = tip, tip - 0.2 * way + 0.1 * side, tip - 0.2 * way - 0.1 * side
        corners = " ".join(f"{x:.3f},{y:.3f}" for x, y in head)
        (x1, y1), (x2, y2) = at[a], tip
        lines.append(f'<line x1="{x1:.3f}" y1="{y1:.3f}" x2="{x2:.3f}" y2="{y2:.3f}"/>')
        lines.append(f'<polygon class="arrow" points="{corners}"/>')
    for (x, y), level in zip(places, levels, strict=True):
        share = round(10 + 45 * level / max(1, max(levels)))
        shade = f"fill: color-mix(in srgb, var(--ramp-3) {share}%, var(--paper))"
        lines.append(f'<circle cx="{x}" cy="{y}" r=".32" style="{shade}" stroke="var(--quiet)" stroke-width=".03"/>')
        lines.append(f'<text x="{x}" y="{y}" style="font-size: .34px; fill: var(--ink)">{level}</text>')
    return (
        f'<figure><figcaption>{title}, {max(levels) + 1} levels</figcaption><div class="scroll">'
        f'<svg class="dag" role="img" aria-label="{title}" viewBox="-.6 -.6 {wide:.3f} {high:.3f}" '
        f'style="min-width: {wide:.1f}rem; max-width: {wide * 2.6:.1f}rem">'
        f'<g class="links atoms" stroke-width=".04">{"".join(lines)}</g></svg></div></figure>'
    )
