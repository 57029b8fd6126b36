"""A topology to look at: its nodes and edges, its DAGs with their levels, and the resolvents."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chimera_lab.show import page as pages
from chimera_lab.show.graphs import draw_graph, draw_molecule
from chimera_lab.show.spec import parse_topology
from chimera_lab.show.view import Scene, View, span
from chimera_ssm.adjacency import dag_adjacency, graph_adjacency
from chimera_ssm.ops import mask, select_solver
from chimera_ssm.topology import Grid, Line, Topology, UndirectedLine

Array = np.ndarray

#: All steps alike: along an edge e^−0.3 = 0.74 is kept, divided among the edges into a node.
STEP = 0.3


@dataclass(frozen=True)
class Shown:
    """A topology with what there is to draw.

    Attributes:
        topology: itself.
        dags: the acyclic topologies it is read as.
        view: nodes and resolvents.
        summary: its sizes, and how it is solved.
    """

    topology: Topology
    dags: tuple[Topology, ...]
    view: View
    summary: str


def show(spec: str, node: str | None = None) -> Shown:
    """A topology as one types it, see `parse_topology`; ``node`` is the one to begin with."""
    topology = parse_topology(spec)
    dags = tuple(topology.dags())
    scene = _scene(spec, topology)
    found = {"every path of the graph": _exact(topology)} if not topology.is_acyclic else {}
    each = {f"DAG {k + 1}": mask(d, dag_adjacency(d, _steps(d)).weight)[0] for k, d in enumerate(dags)}
    found |= {"sum of the DAGs": torch.stack([*each.values()]).sum(0), **each} if len(dags) > 1 else each
    planes = torch.stack([*found.values()]).unsqueeze(1).numpy()
    menus = (("resolvent", list(found)), ("", ["all"]))
    nodes = np.arange(topology.num_nodes)
    view = View(scene, planes, menus, nodes, node=scene.find(node), matrix=True)
    depth = " and ".join(sorted({str(dag.longest_path) for dag in dags}))
    solver = str(select_solver(topology)).partition(";")[0]
    summary = (
        f"{spec}: {topology.num_nodes} nodes, {topology.num_edges} edges, diameter {topology.diameter}; "
        f"{len(dags)} DAG{'s' * (len(dags) > 1)} with longest path {depth}; solved by {solver}"
    )
    return Shown(topology, dags, view, summary)


def _steps(topology: Topology) -> torch.Tensor:
    return torch.full((1, topology.num_nodes), STEP)


def _exact(topology: Topology) -> torch.Tensor:
    delta = _steps(topology)
    return mask(topology, graph_adjacency(topology, delta, 5 * torch.ones_like(delta)).weight)[0]


def _scene(spec: str, topology: Topology) -> Scene:
    edges = topology.edge_index.numpy()
    if spec.startswith("smiles:"):
        from chimera_lab.data.molecules import molecule_graph

        labels, drawing = draw_molecule(*molecule_graph(spec.removeprefix("smiles:")))
    else:
        labels = [str(k) for k in range(topology.num_nodes)]
        drawing = draw_graph(topology.num_nodes, edges, _places(topology))
    return Scene("graph", spec, "node", labels, drawing, focus=topology.num_nodes // 2)


def _places(topology: Topology) -> Array | None:
    """Places where the topology has some of its own; further axes of a grid lead away at a slant."""
    if isinstance(topology, (Line, UndirectedLine)):
        return np.stack([np.arange(topology.num_nodes), np.zeros(topology.num_nodes)], axis=1)
    if isinstance(topology, Grid):
        ways = np.array([(1, 0), (0, 1), *((0.43 / k, -0.31 / k) for k in range(1, topology.num_axes))])
        return topology.coordinates[:, ::-1] @ ways[: topology.num_axes]
    return None


# The page


def page(shown: Shown) -> str:
    """An interactive page."""
    return pages.document(
        shown.view.scene.title,
        f"<h1>{escape(shown.view.scene.title)}</h1>",
        f"<p>{escape(shown.summary)}</p>",
        "<h2>Who hears whom</h2>",
        "<p>The resolvent (I − A)⁻¹ sums influence over all paths; row i of the matrix is what node i hears. All steps "
        f"are {STEP} here; in a model each node has its own. Point at a node or a row.</p>",
        pages.figure(shown.view),
        "<h2>DAGs and levels</h2>",
        "<p>Numbers are levels, the longest path that ends in a node: one sweep takes the levels in order.</p>",
        '<div class="charts">',
        *(_dag_svg(dag, shown.view.scene.drawing["places"], f"DAG {k + 1}") for k, dag in enumerate(shown.dags)),
        "</div>",
    )


def _dag_svg(dag: Topology, places: list[Any], title: str) -> str:
    """One acyclic topology: arrows, and the level of each node as number and shade."""
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


# The picture


def draw(shown: Shown, path: Path) -> None:
    """A picture of the topology, of its DAGs with their levels, and of the resolvent."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from chimera_lab.show.picture import RAMP, links, literal, loops

    places = np.array(shown.view.scene.drawing["places"])
    drawn = shown.dags[:4]
    figure = Figure(figsize=(4 * (2 + len(drawn)), 4), layout="constrained")
    axes = figure.subplots(1, 2 + len(drawn))
    drawing = shown.view.scene.drawing
    links(axes[0], places, drawing["links"], drawing["directed"])
    loops(axes[0], places, drawing["loops"])
    texts = [text if text.isdigit() else f"{text}{k}" for k, text in enumerate(map(str, drawing["symbols"]))]
    _dots(axes[0], places, texts, "#f6f3fb", shown.view.scene.title)
    for k, dag in enumerate(drawn):
        levels = dag.levels.numpy()
        links(axes[1 + k], places, [(a, b, 1) for a, b in dag.edge_index.t().tolist()], True)
        shades = RAMP(0.6 * levels / max(1, levels.max()))
        _dots(axes[1 + k], places, levels.tolist(), shades, f"DAG {k + 1} of {len(shown.dags)}, levels")
    low, high = span(shown.view.planes[0])
    matrix = axes[-1].imshow(np.maximum(shown.view.planes[0, 0], low), cmap=RAMP, norm=LogNorm(low, high))
    axes[-1].set(title=literal(f"resolvent: {shown.view.menus[0][1][0]}"), xlabel="is heard", ylabel="hears")
    for axis in (axes[-1].xaxis, axes[-1].yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(matrix, ax=axes[-1], shrink=0.8)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _dots(axes: Any, places: Array, texts: list[Any], shades: Any, title: str) -> None:
    from chimera_lab.show.picture import literal

    axes.scatter(*places.T, s=200, c=shades, edgecolors="#655d73", zorder=2)
    for (x, y), text in zip(places, texts, strict=True):
        axes.text(x, y, literal(str(text)), ha="center", va="center", size=8, zorder=3)
    (left, top), (right, bottom) = places.min(0) - 0.6, places.max(0) + 0.6  # a line has no height of its own
    axes.set(title=literal(title), aspect="equal", xlim=(left, right), ylim=(bottom, top))
    axes.axis("off")
