"""The convolution over neighbours against its definition, node by node."""

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo

D = 5


@pytest.mark.parametrize("name", ["dag 63", "directed graph with loops", "graphs", "no edges"])
def test_neighbours(name):
    topology = zoo.ZOO[name]
    conv = chimera.NeighbourConv(D).double()
    x = torch.randn(2, topology.num_nodes, D, dtype=torch.float64)
    expected = conv.bias + conv.own * x
    for source, target in topology.edge_index.t().tolist():
        expected[:, target] = expected[:, target] + conv.neighbour * x[:, source]
    torch.testing.assert_close(conv(x, topology), expected)


def test_weighted_neighbours():
    topology = zoo.ZOO["directed graph with loops"]
    conv = chimera.NeighbourConv(D).double()
    x = torch.randn(2, topology.num_nodes, D, dtype=torch.float64)
    weight = torch.rand(2, topology.num_edges, dtype=torch.float64)
    expected = conv.bias + conv.own * x
    for e, (source, target) in enumerate(topology.edge_index.t().tolist()):
        expected[:, target] = expected[:, target] + conv.neighbour * weight[:, e, None] * x[:, source]
    torch.testing.assert_close(conv(x, topology, edge_weight=weight), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_over_a_node_and_its_neighbours(weighted):
    topology = zoo.ZOO["directed graph with loops"]
    conv = chimera.NeighbourConv(D, aggregate="mean").double()
    conv.constant_from, conv.constant = 2, 0.5
    conv.reset_parameters()
    x = torch.randn(2, topology.num_nodes, D, dtype=torch.float64)
    weight = torch.rand(2, topology.num_edges, dtype=torch.float64) if weighted else torch.ones(2, topology.num_edges)
    total, count = x.clone(), torch.ones(2, topology.num_nodes, 1, dtype=torch.float64)
    for e, (source, target) in enumerate(topology.edge_index.t().tolist()):
        total[:, target] = total[:, target] + weight[:, e, None] * x[:, source]
        count[:, target] += weight[:, e, None]
    found = conv(x, topology, edge_weight=weight if weighted else None)
    torch.testing.assert_close(found, conv.bias + conv.own * x + conv.neighbour * total / count)
    torch.testing.assert_close(found[..., :2], (total / count)[..., :2])  # where it starts
