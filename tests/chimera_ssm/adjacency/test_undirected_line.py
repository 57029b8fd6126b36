"""Weights on undirected lines against their formulas: masks, extreme steps, bounds."""

import math

import pytest
import torch

import chimera_ssm as chimera
from tests.chimera_ssm.adjacency.formulas import (
    HEADS,
    assert_finite,
    assert_same,
    check_mask,
    extreme,
    lines,
    node_steps,
    pairs,
    slow_undirected_line,
)


@lines
@pytest.mark.parametrize("gamma", [0.5, 0.999])
@pytest.mark.parametrize("psi_scale", [1.0, 10.0], ids=["psi", "least psi"])
def test_undirected_line_weights(topology, gamma, psi_scale):
    delta, psi = node_steps(topology), node_steps(topology, seed=1) * psi_scale
    delta_source = node_steps(topology, seed=2)
    found = chimera.undirected_line_adjacency(topology, delta, psi, delta_source=delta_source, gamma=gamma)
    assert_same(found, slow_undirected_line(topology, delta, psi, delta_source, gamma))


@lines
def test_undirected_line_weights_with_one_step(topology):
    delta, psi = node_steps(topology), node_steps(topology, seed=1)
    found = chimera.undirected_line_adjacency(topology, delta, psi)
    assert_same(found, slow_undirected_line(topology, delta, psi, delta, gamma=0.99))


@lines
def test_masked_undirected_line_weights(topology):
    delta, psi, delta_source = (node_steps(topology, seed) for seed in range(3))
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.undirected_line_adjacency(
            t, delta[:, nodes], psi[:, nodes], delta_source=delta_source[:, nodes], node_mask=mask
        ),
    )


@lines
@pytest.mark.parametrize("gamma", [0.5, 0.999])
def test_undirected_line_weights_are_finite_and_two_cycles_bounded_for_extreme_steps(topology, gamma):
    delta, psi, delta_source = (extreme(topology, seed) for seed in range(3))
    adjacency = chimera.undirected_line_adjacency(topology, delta, psi, delta_source=delta_source, gamma=gamma)
    assert_finite(adjacency, delta, psi, delta_source)
    weight = dict(zip(pairs(topology), adjacency.weight.detach().double().unbind(-1), strict=True))
    for source, target in weight:
        product = weight[source, target] * weight[target, source]
        assert (product >= 0).all()
        assert (product <= gamma**2 / 4 * (1 + 1e-5)).all()


NODES = torch.ones(HEADS, 4)


@pytest.mark.parametrize("gamma", [0, 0.9999, 1, 1.5, math.nan])
def test_gamma_of_an_undirected_line_is_bounded_further(gamma):
    with pytest.raises(ValueError, match=f"gamma must satisfy 0 < γ ≤ 0.999, found {gamma}"):
        chimera.undirected_line_adjacency(chimera.UndirectedLine(4), NODES, NODES, gamma=gamma)


@pytest.mark.parametrize(
    "topology", [chimera.Grid((2, 2)), chimera.Line(4), chimera.Graph(4, [[0, 1], [1, 1]])], ids=repr
)
def test_undirected_line_weights_need_undirected_lines(topology):
    with pytest.raises(ValueError, match=r"needs undirected lines, found .*; use graph_adjacency"):
        chimera.undirected_line_adjacency(topology, NODES, NODES)
