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
