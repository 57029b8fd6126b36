"""Nodes sorted by degree, and tokens of random walks, one graph and one node at a time."""

import torch

import chimera_ssm as chimera
from chimera_lab.baselines.node_draws import Places
from chimera_lab.baselines.sorted_nodes import STEPS, WALKS, GraphMambaLayer, SortedMamba
from chimera_lab.baselines.walks import random_walks
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.topology.from_edge_index import from_edge_index

CONFIG = chimera.ChimeraGraphConfig(hidden_size=8, num_heads=2, state_size=4, edge_features=None)
SIZES = 6, 1, 4


def trees():
    """Paths and a star: a tree in each graph, and its nodes."""
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 3, 3, 7, 7, 7], [1, 2, 3, 4, 5, 8, 9, 10]])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    batch = torch.repeat_interleave(torch.arange(3), torch.tensor(SIZES))
    structure = GraphStructure(from_edge_index(edge_index, 11, batch), edge_index, batch)
    return structure, torch.randn(11, 8)


def test_nodes_are_sorted_by_degree_and_the_order_is_undone():
    structure, x = trees()
    mixer = SortedMamba(CONFIG).eval()
    degree, noise = torch.bincount(structure.edge_index[1], minlength=11), Places.of(structure).draw(5, False)
    expected = torch.zeros(11, 8)
    for graph in range(3):
        nodes = (structure.batch == graph).nonzero().flatten()
        for k in range(5):
            order = nodes[(degree[nodes] + noise[nodes, k]).argsort()]
            assert degree[order].tolist() == sorted(degree[nodes].tolist())
            expected[order] += mixer.mixer(x[order], chimera.Line(len(order))) / 5
    torch.testing.assert_close(mixer(x, None, structure), expected)


def test_tokens_are_means_over_walks_that_grow():
    structure, h = trees()
    layer = GraphMambaLayer(CONFIG).eval()
    tokens = layer._tokens(h, structure)
    assert tokens.shape == (11, STEPS + 1, 8)
    torch.testing.assert_close(tokens[:, -1], h)
    draws = Places.of(structure).draw(WALKS * STEPS, False)
    for node in range(11):
        walks = random_walks(
            structure.pyg_topology.topology, torch.full((WALKS,), node), draws[node].view(WALKS, STEPS)
        )
        for k in range(STEPS + 1):
            torch.testing.assert_close(tokens[node, STEPS - k], h[walks.nodes[:, : k + 1]].flatten(0, 1).mean(0))
