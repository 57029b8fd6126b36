"""Injection: the gain of each choice, hold on every topology, gradients against dense float64, refusals."""

import math

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.adjacency.dag import num_axes
from tests import zoo
from tests.chimera_ssm.adjacency.formulas import GRIDS, LINES, acyclic, every, grids, node_steps, steps

MASKED = pytest.mark.parametrize("masked", [False, True])


def mask_of(topology, masked):
    """A mask that leaves out every third node, or none."""
    return torch.arange(topology.num_nodes) % 3 != 1 if masked else None


def gain(topology, adjacency):
    """``L β``, ``[H, T]``, by a dense solve."""
    return chimera.solve(topology, adjacency.weight, adjacency.scale.unsqueeze(-1), chimera.Dense()).squeeze(-1)


def assert_held(topology, adjacency, node_mask):
    present = torch.ones(topology.num_nodes, dtype=torch.bool) if node_mask is None else node_mask
    torch.testing.assert_close(gain(topology, adjacency), present.double().expand(2, -1), rtol=0, atol=1e-6)
    assert (adjacency.scale >= 0).all()


@acyclic
@MASKED
@pytest.mark.parametrize("step", ["mean", "target"])
def test_hold_on_dags(topology, masked, step):
    node_mask = mask_of(topology, masked)
    weights = chimera.dag_adjacency(topology, node_steps(topology), step=step, injection="hold", node_mask=node_mask)
    assert_held(topology, weights, node_mask)


@grids
@MASKED
def test_hold_on_grids(topology, masked):
    delta, node_mask = steps(2, topology.cached(num_axes), topology.num_nodes), mask_of(topology, masked)
    assert_held(topology, chimera.grid_adjacency(topology, delta, injection="hold", node_mask=node_mask), node_mask)


@every
@MASKED
def test_hold_on_graphs(topology, masked):
    delta, psi, node_mask = node_steps(topology), node_steps(topology, seed=1), mask_of(topology, masked)
    weights = chimera.graph_adjacency(topology, delta, psi, injection="hold", node_mask=node_mask)
    assert_held(topology, weights, node_mask)


def test_hold_on_a_line_is_zero_order_hold():
    delta = node_steps(line := chimera.Line(7))
    scale = chimera.dag_adjacency(line, delta, step="target", injection="hold").scale
    torch.testing.assert_close(scale[:, 1:], -torch.expm1(-delta[:, 1:]))
    assert (scale[:, 0] == 1).all()


def test_hold_keeps_its_gain_in_float32_at_small_steps():
    """1 − A is exact where A is near one, so that steps of a thousandth lose nothing."""
    line = chimera.Line(5000)
    weights = chimera.dag_adjacency(line, torch.full((1, 5000), 1e-3), injection="hold")
    torch.testing.assert_close(gain_by_scan(line, weights), torch.ones(1, 5000), rtol=0, atol=1e-4)


def gain_by_scan(topology, adjacency):
    return chimera.solve(topology, adjacency.weight, adjacency.scale.unsqueeze(-1)).squeeze(-1)


@MASKED
@pytest.mark.parametrize("name", ["dag", "grid", "graph", "line"])
def test_a_given_injection_is_taken_as_it_is(name, masked):
    topology, make = parameterisations()[name]
    node_mask, given = mask_of(topology, masked), torch.randn(2, topology.num_nodes, dtype=torch.float64)
    weight, scale = make(injection=given, node_mask=node_mask)
    assert torch.equal(weight, make(node_mask=node_mask).weight)
    assert torch.equal(scale, given if node_mask is None else given * node_mask)


def parameterisations():
    grid, graph, line, dag = GRIDS["four axes"], zoo.random_graph(12, 20), LINES["9"], zoo.random_dag(12, 20)

    def of(function, topology, *arguments):
        return topology, lambda **options: function(topology, *arguments, **options)

    return {
        "dag": of(chimera.dag_adjacency, dag, node_steps(dag)),
        "grid": of(chimera.grid_adjacency, grid, steps(2, 4, grid.num_nodes)),
        "graph": of(chimera.graph_adjacency, graph, node_steps(graph), node_steps(graph, seed=1)),
        "line": of(chimera.undirected_line_adjacency, line, node_steps(line), node_steps(line, seed=1)),
    }


@pytest.mark.parametrize("injection", ["hold", "step"])
@pytest.mark.parametrize("kind", ["dag", "graph"])
def test_values_and_gradients_of_a_mix(kind, injection, engine):
    """Through weights and injection to the steps, against the definition with a dense inverse in float64."""
    graph = zoo.random_dag(20, 40) if kind == "dag" else zoo.random_graph(20, 30, loops=True)
    generator = torch.Generator().manual_seed(3)
    C, B, V, g = (torch.randn(2, 20, n, dtype=torch.float64, generator=generator) for n in (16, 16, 16, 16))
    leaves = [node_steps(graph, seed=s).requires_grad_() for s in (0, 1, 2)]

    def adjacency():
        delta, psi, source = leaves
        if kind == "dag":
            return chimera.dag_adjacency(graph, delta, edge_step=None, injection=injection)
        return chimera.graph_adjacency(graph, delta, psi, delta_source=source, injection=injection)

    def dense():
        weight, scale = adjacency()
        source, target = graph.edge_index
        A = torch.zeros(2, 20, 20, dtype=torch.float64).index_put((torch.arange(2)[:, None], target, source), weight)
        L = torch.stack([torch.linalg.inv(torch.eye(20, dtype=torch.float64) - a) for a in A])
        return (L * (C @ (scale.unsqueeze(-1) * B).mT)) @ V

    def fast():
        weight, scale = adjacency()
        return chimera.mix(graph, weight, C, B, V, scale)

    wanted = leaves[:1] if kind == "dag" else leaves
    found, expected = fast(), dense()
    torch.testing.assert_close(found, expected)
    pairs = zip(torch.autograd.grad(found, wanted, g), torch.autograd.grad(expected, wanted, g), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs)


def test_row_sums_above_one_are_named():
    grid = chimera.GridDAG((3, 3))
    with pytest.raises(ValueError, match=r"row sums of A of at most one, found 1\.4.* at node 4"):
        chimera.grid_adjacency(grid, torch.full((1, 2, 9), 0.01), normalize="sqrt", injection="hold")
    with pytest.raises(ValueError, match="row sums of A of at most one, found 2 at node 1"):
        chimera.hold_injection(chimera.Graph(2, [[0, 1], [1, 1]]), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"weight must have shape \[..., H, 2\]"):
        chimera.hold_injection(chimera.Line(3), torch.ones(1, 3))
    with pytest.raises(ValueError, match="injection must be 'hold', 'step' or a tensor"):
        chimera.dag_adjacency(chimera.Line(3), torch.ones(1, 3), injection="none")


def test_gain_of_the_step_on_a_line_is_near_one_and_on_a_ring_is_small():
    """Row normalisation bounds the row sums of L by 1/(1 − γ), not by 1/Δ as on a line."""
    line, nodes = chimera.Line(400), torch.arange(64)
    ring = chimera.Graph(64, torch.stack([torch.cat([nodes, (nodes + 1) % 64]), torch.cat([(nodes + 1) % 64, nodes])]))
    on_line = gain_by_scan(line, chimera.dag_adjacency(line, torch.full((1, 400), 0.05)))
    assert math.isclose(on_line[0, -1], 0.05 / -math.expm1(-0.05), rel_tol=1e-3)
    on_ring = gain(ring, chimera.graph_adjacency(ring, torch.full((1, 64), 0.01), torch.full((1, 64), 1.0)))
    assert on_ring.max() < 0.1
