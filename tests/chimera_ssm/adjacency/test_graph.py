"""Weights on graphs against their formulas: rows, masks, extreme steps, gradients."""

import math

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo
from tests.chimera_ssm.adjacency.formulas import (
    GAMMA,
    HEADS,
    assert_finite,
    assert_same,
    check_mask,
    edge_steps,
    every,
    extreme,
    node_steps,
    row_sums,
    slow_graph,
)


@every
@pytest.mark.parametrize("with_edges", [False, True], ids=["nodes", "edges"])
@pytest.mark.parametrize("directional", [False, True], ids=["one step", "two steps"])
def test_graph_weights(topology, directional, with_edges):
    delta, psi = node_steps(topology), node_steps(topology, seed=1) - 1
    options = {"delta_source": node_steps(topology, seed=2)} if directional else {}
    options |= {"edge_step": edge_steps(topology)} if with_edges else {}
    expected = slow_graph(topology, delta, psi, **options)
    assert_same(chimera.graph_adjacency(topology, delta, psi, **options), expected)


@pytest.mark.parametrize("gamma", [0.1, 0.999])
def test_graph_weights_follow_gamma(gamma):
    graph = zoo.ZOO["directed graph with loops"]
    delta, psi = node_steps(graph), node_steps(graph, seed=1)
    assert_same(chimera.graph_adjacency(graph, delta, psi, gamma=gamma), slow_graph(graph, delta, psi, gamma=gamma))


@every
def test_masked_graph_weights(topology):
    delta, psi, delta_source = (node_steps(topology, seed) for seed in range(3))
    edge_step = edge_steps(topology)
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.graph_adjacency(
            t,
            delta[:, nodes],
            psi[:, nodes],
            delta_source=delta_source[:, nodes],
            edge_step=edge_step[:, edges],
            node_mask=mask,
        ),
    )


@every
@pytest.mark.parametrize("sign", [1, -1], ids=["psi", "negative psi"])
def test_graph_weights_are_finite_and_rows_bounded_for_extreme_steps(topology, sign):
    delta, psi, delta_source = (extreme(topology, seed) for seed in range(3))
    edge_step = edge_steps(topology, low=1e-6, high=1e3, dtype=torch.float32).requires_grad_()
    adjacency = chimera.graph_adjacency(topology, delta, sign * psi, delta_source=delta_source, edge_step=edge_step)
    assert_finite(adjacency, delta, psi, delta_source, edge_step)
    assert (adjacency.weight >= 0).all()
    rounding = 1 + 4 * torch.finfo(torch.float32).eps
    assert (row_sums(topology, adjacency.weight) <= GAMMA * rounding).all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_a_row_of_large_steps_keeps_its_share(size):
    """Where all exponents are equal, a row of n edges and Ψ is split into n + 1 equal parts."""
    graph = zoo.ZOO["dense graph"]
    delta = torch.full((1, graph.num_nodes), size)
    weight = chimera.graph_adjacency(graph, delta, delta).weight
    expected = GAMMA / (graph.in_degree[graph.edge_index[1]] + 1)
    torch.testing.assert_close(weight[0], expected, rtol=1e-6, atol=0)


def test_gradients_of_graph_weights():
    graph = zoo.random_graph(6, 8, directed=True, loops=True)
    inputs = [x.requires_grad_() for x in (*(node_steps(graph, seed) for seed in range(3)), edge_steps(graph))]
    mask = torch.arange(6) != 2
    assert torch.autograd.gradcheck(
        lambda delta, psi, source, edge: chimera.graph_adjacency(
            graph, delta, psi, delta_source=source, edge_step=edge, node_mask=mask
        ),
        inputs,
    )


@pytest.mark.parametrize("gamma", [0, 1, 1.5, -0.5, math.nan])
def test_gamma_out_of_range_is_named(gamma):
    with pytest.raises(ValueError, match=f"gamma must satisfy 0 < γ < 1, found {gamma}"):
        chimera.graph_adjacency(zoo.ZOO["triangle"], torch.ones(HEADS, 3), torch.ones(HEADS, 3), gamma=gamma)
