"""Truncated series: their terms in each part, and their second derivatives."""

import numpy as np
import pytest
import torch
from torch.autograd import gradgradcheck

import chimera_ssm as chimera
from chimera_ssm.ops.neumann.cpu import series
from chimera_ssm.ops.neumann.resolvent import TruncatedResolvent
from tests import zoo
from tests.chimera_ssm.ops.second_derivatives import TOPOLOGIES, assert_twice_differentiable


@pytest.mark.parametrize("terms", [-1, 2.5, True])
def test_neumann_terms(terms):
    with pytest.raises(ValueError, match="whole number"):
        chimera.Neumann(terms)


@pytest.mark.parametrize("columns", [1, 17, 48])
def test_a_series_has_the_terms_of_each_part(columns):
    parts = [zoo.random_graph(7, 16), chimera.Graph(1, np.empty((2, 0), int)), zoo.random_graph(12, 30)]
    graph, powers = chimera.batch(parts), (4, 0, 9)
    generator = torch.Generator().manual_seed(0)
    weight = (0.3 * torch.rand(3, graph.num_edges, dtype=torch.float64, generator=generator)).requires_grad_()
    rhs = torch.randn(3, graph.num_nodes, columns, dtype=torch.float64, generator=generator).requires_grad_()
    terms, found = [], series(graph, weight, rhs, powers)
    for w, b, part, power in zip(
        weight.split([p.num_edges for p in parts], 1), rhs.split([7, 1, 12], 1), parts, powers, strict=True
    ):
        source, target = part.edge_index
        A = torch.zeros(3, part.num_nodes, part.num_nodes, dtype=torch.float64)
        A = A.index_put((torch.arange(3)[:, None], target[None], source[None]), w)
        terms.append(sum((torch.linalg.matrix_power(A, k) @ b for k in range(1, power + 1)), b))
    truth, gradient = torch.cat(terms, 1), torch.randn_like(rhs)
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(found, (weight, rhs), gradient),
        torch.autograd.grad(truth, (weight, rhs), gradient),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


@pytest.fixture
def sparse(monkeypatch):
    """Truncated series by sparse products, however small."""
    monkeypatch.setattr(TruncatedResolvent, "_dense_is_cheaper", lambda *_: False)


NEUMANN = pytest.mark.parametrize("solver", [chimera.Neumann(), chimera.Neumann(3), chimera.Neumann(0)], ids=str)


@NEUMANN
@pytest.mark.usefixtures("sparse")
@pytest.mark.parametrize("name", ["dag", "graph", "unequal graphs", "no edges"])
def test_truncated_solve(name, engine, solver):
    (topology,) = TOPOLOGIES[name]
    weight = zoo.bounded_weights(topology, 2).requires_grad_()
    rhs = torch.randn(2, topology.num_nodes, 1, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda w, b: chimera.solve(topology, w, b, solver), (weight, rhs), fast_mode=True)
    found = chimera.solve(topology, weight, rhs.detach(), solver).square().sum()
    (gradient,) = torch.autograd.grad(found, weight, create_graph=True, materialize_grads=True)
    assert gradient.isfinite().all()


@NEUMANN
@pytest.mark.usefixtures("sparse")
@pytest.mark.parametrize("name", ["dag", "unequal graphs"])
def test_truncated_mix(name, form, engine, solver):
    assert_twice_differentiable(TOPOLOGIES[name], solver=solver)
