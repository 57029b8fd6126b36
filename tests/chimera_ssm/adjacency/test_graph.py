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


def weighted(topology, edge_weight, normalize="row"):
    """Weights by their definition, with a loop over edges."""
    delta, psi, source_delta = (node_steps(topology, seed) for seed in range(3))
    A = {}
    for e, (j, i) in enumerate(topology.edge_index.T.tolist()):
        A[e] = edge_weight[..., e] * torch.exp(-(delta[:, i] + source_delta[:, j]) / 2)
    end = 1 if normalize == "row" else 0
    total = {}
    for e, ends in enumerate(topology.edge_index.T.tolist()):
        total[ends[end]] = total.get(ends[end], 0) + A[e]
    for e, ends in enumerate(topology.edge_index.T.tolist()):
        rest = torch.exp(-psi[:, ends[end]])
        whole = total[ends[end]] + rest
        whole = whole / GAMMA if normalize == "row" else whole.clamp(min=1) + (1 / GAMMA - 1)
        A[e] = A[e] / whole
    found = chimera.graph_adjacency(
        topology, delta, psi, delta_source=source_delta, edge_weight=edge_weight, gamma=GAMMA, normalize=normalize
    )
    return found.weight, torch.stack(list(A.values()), -1)


@pytest.mark.parametrize("normalize", ["row", "column"])
def test_edge_weights_multiply_before_the_normalization(normalize):
    graph = zoo.ZOO["directed graph with loops"]
    edge_weight = torch.rand(1, graph.num_edges, dtype=torch.double) * 3
    edge_weight[:, ::3] = 0
    edge_weight.requires_grad_()
    found, expected = weighted(graph, edge_weight, normalize)
    torch.testing.assert_close(found, expected)
    g = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad((x * g).sum(), edge_weight) for x in (found, expected)), strict=True):
        torch.testing.assert_close(a, b)


def test_an_edge_of_weight_zero_may_have_the_largest_exponent():
    graph = chimera.Graph(3, [[0, 1], [2, 2]])
    delta = torch.tensor([[1.0, 300.0, 300.0]])
    weight = torch.tensor([[0.0, 1.0]], requires_grad=True)
    A = chimera.graph_adjacency(graph, delta, delta, delta_source=delta, edge_weight=weight, injection="hold").weight
    torch.testing.assert_close(A, torch.tensor([[0.0, GAMMA / 2]]))
    assert torch.autograd.grad(A.sum(), weight)[0].isfinite().all()


def test_negative_edge_weights_are_refused():
    graph = chimera.Graph(3, [[0, 1], [2, 2]])
    for value in (-0.5, math.nan):
        with pytest.raises(ValueError, match=f"edge_weight must not be negative, found {value:g}; use edge_attr"):
            chimera.graph_adjacency(graph, torch.ones(1, 3), torch.ones(1, 3), edge_weight=torch.tensor([[1.0, value]]))
