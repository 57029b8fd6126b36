"""Small topologies, and mixes of them whose second derivatives are checked."""

import torch
from torch.autograd import gradgradcheck

import chimera_ssm as chimera
from tests import zoo

SIZES = 1, 2, 1, 2, 3  # Z, H, G, N, P
TOPOLOGIES = {
    "line": [chimera.Line(5)],
    "long line": [chimera.Line(70)],
    "lines": [chimera.batch([chimera.Line(3), chimera.Line(1), chimera.Line(2, reverse=True)])],
    "two lines": chimera.UndirectedLine(5).dags(),
    "undirected line": [chimera.UndirectedLine(5)],
    "undirected path in disorder": [zoo.CYCLIC["undirected path in disorder"]],
    "grid": [chimera.Grid((2, 3))],
    "grid as dags": chimera.Grid((2, 3)).dags(),
    "line and grid": [chimera.Line(6), chimera.GridDAG((2, 3))],
    "dag": [zoo.random_dag(7, 12)],
    "tree": [zoo.random_tree(7)],
    "graph": [zoo.random_graph(6, 9, directed=True, loops=True)],
    "no edges": [zoo.OTHERS["no edges"]],
    "unequal graphs": [chimera.batch([zoo.random_graph(5, 7), chimera.Graph(1, [[], []]), zoo.random_tree(3)])],
}


def inputs(topologies, sizes=SIZES, scaled=True):
    """V, weights, scales, and one C and B, all to be differentiated."""
    (Z, H, G, N, P), T = sizes, topologies[0].num_nodes
    generator = torch.Generator().manual_seed(0)
    shapes = (Z, H, T, P), (Z, G, T, N), (Z, G, T, N), *[(Z, H, T)] * (len(topologies) if scaled else 0)
    V, C, B, *scales = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    weights = [zoo.bounded_weights(t, Z, H, seed=k) for k, t in enumerate(topologies)]
    return tuple(x.requires_grad_() for x in (V, C, B, *weights, *scales))


def assert_twice_differentiable(topologies, sizes=SIZES, scaled=True, solver=None):
    """All terms share one C and one B."""
    D = len(topologies)

    def mix(V, C, B, *rest):
        return chimera.mix(topologies, rest[:D], [C] * D, [B] * D, V, rest[D:] or None, solver)

    assert gradgradcheck(mix, inputs(topologies, sizes, scaled), fast_mode=True)
