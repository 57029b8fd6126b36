"""A topology with its DAGs and resolvents, ready to be drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from chimera_lab.data.molecules import molecule_graph
from chimera_lab.show.drawing import draw_graph, draw_molecule
from chimera_lab.show.spec import parse_topology
from chimera_lab.show.view import Scene, View
from chimera_ssm.adjacency import dag_adjacency, graph_adjacency
from chimera_ssm.ops import mask, select_solver
from chimera_ssm.topology import Grid, Line, Topology, UndirectedLine

Array = np.ndarray

#: Step size of every node: an edge keeps e^−0.3 = 0.74, divided by the in-degree of its target.
STEP = 0.3


@dataclass(frozen=True)
class TopologyView:
    """A topology and what is drawn of it.

    Attributes:
        topology: the topology.
        dags: the acyclic topologies into which it is decomposed.
        view: nodes and resolvents.
        summary: sizes and solver, in words.
    """

    topology: Topology
    dags: tuple[Topology, ...]
    view: View
    summary: str


def show_topology(spec: str, node: str | None = None) -> TopologyView:
    """The view of a topology given as text, see `parse_topology`; ``node`` is the node to show first."""
    topology = parse_topology(spec)
    dags = tuple(topology.dags())
    scene = _scene(spec, topology)
    resolvents = {"every path of the graph": _exact(topology)} if not topology.is_acyclic else {}
    each = {f"DAG {k + 1}": mask(d, dag_adjacency(d, _steps(d)).weight)[0] for k, d in enumerate(dags)}
    resolvents |= {"sum of the DAGs": torch.stack([*each.values()]).sum(0), **each} if len(dags) > 1 else each
    planes = torch.stack([*resolvents.values()]).unsqueeze(1).numpy()
    menus = (("resolvent", list(resolvents)), ("", ["all"]))
    nodes = np.arange(topology.num_nodes)
    view = View(scene, planes, menus, nodes, node=scene.find(node), matrix=True)
    depth = " and ".join(sorted({str(dag.longest_path) for dag in dags}))
    solver = str(select_solver(topology)).partition(";")[0]
    summary = (
        f"{spec}: {topology.num_nodes} nodes, {topology.num_edges} edges, diameter {topology.diameter}; "
        f"{len(dags)} DAG{'s' * (len(dags) > 1)} with longest path {depth}; solved by {solver}"
    )
    return TopologyView(topology, dags, view, summary)


def _steps(topology: Topology) -> torch.Tensor:
    return torch.full((1, topology.num_nodes), STEP)


def _exact(topology: Topology) -> torch.Tensor:
    delta = _steps(topology)
    return mask(topology, graph_adjacency(topology, delta, 5 * torch.ones_like(delta)).weight)[0]


def _scene(spec: str, topology: Topology) -> Scene:
    edges = topology.edge_index.numpy()
    if spec.startswith("smiles:"):
        labels, drawing = draw_molecule(*molecule_graph(spec.removeprefix("smiles:")))
    else:
        labels = [str(k) for k in range(topology.num_nodes)]
        drawing = draw_graph(topology.num_nodes, edges, _places(topology))
    return Scene("graph", spec, "node", labels, drawing, focus=topology.num_nodes // 2)


def _places(topology: Topology) -> Array | None:
    """Places of lines and grids, whose axes beyond the second are drawn at a slant; ``None`` for other topologies."""
    if isinstance(topology, (Line, UndirectedLine)):
        return np.stack([np.arange(topology.num_nodes), np.zeros(topology.num_nodes)], axis=1)
    if isinstance(topology, Grid):
        axes = np.array([(1, 0), (0, 1), *((0.43 / k, -0.31 / k) for k in range(1, topology.num_axes))])
        return topology.coordinates[:, ::-1] @ axes[: topology.num_axes]
    return None
