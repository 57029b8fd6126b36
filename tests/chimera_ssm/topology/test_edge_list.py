"""Edges that are given: kept in their order, whatever happens to what was given."""

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from tests.chimera_ssm.topology.definitions import pairs


@pytest.mark.parametrize("kind", [chimera.DAG, chimera.Graph])
@pytest.mark.parametrize("as_given", [torch.tensor, np.array, list, lambda e: torch.tensor(e, dtype=torch.int32)])
def test_the_edge_order_given_is_kept(kind, as_given):
    edges = [[3, 0, 0, 2], [1, 3, 1, 0]]
    found = kind(4, as_given(edges)).edge_index
    assert found.dtype == torch.int64
    assert found.tolist() == edges


@pytest.mark.parametrize("as_given", [torch.tensor, np.array])
def test_writing_to_what_was_given_changes_nothing(as_given):
    edges = as_given([[0, 1], [1, 2]])
    graph = chimera.Graph(3, edges)
    edges[0, 0] = 2
    assert pairs(graph) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_edges_given_may_be_changed_afterwards(make):
    edges = make([[0, 1, 2], [1, 2, 3]])
    graph = chimera.Graph(4, edges)
    weight, rhs = torch.rand(1, 3), torch.randn(1, 4, 2)
    expected = chimera.solve(graph, weight, rhs)
    edges[:] = 0
    assert graph.edge_index.tolist() == [[0, 1, 2], [1, 2, 3]]
    torch.testing.assert_close(chimera.solve(graph, weight, rhs, chimera.Dense()), expected)
