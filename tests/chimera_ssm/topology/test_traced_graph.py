"""A graph whose edges are an input of an exported program."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.topology.traced_graph import TracedGraph


def test_edges_are_the_tensor_itself():
    edges = torch.tensor([[0, 1], [1, 2]])
    graph = TracedGraph(3, edges)
    assert graph.is_traced
    assert graph.tensors("edge_index", edges.device) is edges
    assert (graph.num_nodes, graph.num_edges, graph.parts) == (3, 2, (graph,))
    mixer, x = chimera.Chimera(8), torch.randn(2, 3, 8)
    torch.testing.assert_close(mixer(x, graph), mixer(x, chimera.Graph(3, edges)))


def test_what_needs_the_structure_is_refused():
    graph, x = TracedGraph(3, torch.tensor([[0, 1], [1, 2]])), torch.randn(3, 8)
    with pytest.raises(ValueError, match=r"a graph cannot be divided into DAGs .* OnGraph"):
        chimera.Chimera(8, kind=chimera.OnDAG())(x, graph)
    with pytest.raises(ValueError, match=r"the number of terms of Neumann.* state it, for example Neumann\(terms=8\)"):
        chimera.Chimera(8, solver=chimera.Neumann())(x, graph)
    truncated, known = chimera.Chimera(8, solver=chimera.Neumann(1)), chimera.Graph(3, [[0, 1], [1, 2]])
    torch.testing.assert_close(truncated(x, graph), truncated(x, known))
    with pytest.raises(NotImplementedError, match="has no in_degree: export with fixed sizes"):
        graph.tensors("in_degree", torch.device("cpu"))
