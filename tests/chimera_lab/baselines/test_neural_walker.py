"""NeuralWalker's walks, and what nodes and edges get from them."""

import torch
from torch import nn

import chimera_ssm as chimera
from chimera_lab.baselines.neural_walker import WINDOW, WalkLayer
from chimera_lab.baselines.walks import past_bits
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.topology.from_edge_index import from_edge_index

STEPS = 12


class Nothing(nn.Module):
    """A layer that changes nothing."""

    def forward(self, x, edge, structure):
        return x, edge


def test_nodes_and_edges_are_updated_by_the_mean_over_their_visits():
    torch.manual_seed(0)
    config = chimera.ChimeraGraphConfig(hidden_size=8, num_heads=2, state_size=4, walk_length=STEPS)
    layer = WalkLayer(config, Nothing()).eval()
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 0], [1, 0, 2, 1, 0, 2, 5, 4, 1]])  # 0 → 1 twice, 3 isolated
    batch = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    structure = GraphStructure(from_edge_index(edge_index, 7, batch), edge_index, batch)
    x, edge = torch.randn(7, 8), torch.randn(9, 8)
    walks = layer._walks(structure)
    assert torch.bincount(batch[walks.nodes[:, 0]]).tolist() == [2, 2]
    assert (torch.bincount(walks.nodes[:, 0]) <= 1).all()
    topology = structure.pyg_topology.topology
    merged = structure.pyg_topology.features(edge)
    s = x[walks.nodes] + layer.bits(past_bits(topology, walks.nodes, WINDOW).float())
    for w, t in (walks.edges >= 0).nonzero().tolist():
        s[w, t + 1] += layer.edge(merged[walks.edges[w, t]])
    y = torch.stack([layer.mixer(row, chimera.UndirectedLine(STEPS + 1)) for row in s])
    new_x, new_edge = layer(x, edge, structure)
    for node in range(7):
        visits = y[walks.nodes == node]
        expected = x[node] + visits.mean(0) if len(visits) else x[node]
        torch.testing.assert_close(new_x[node], layer.norm(expected[None])[0])
    for e, pair in enumerate(edge_index.t()):
        uses = y[:, 1:][(walks.edges >= 0) & (topology.edge_index.t()[walks.edges] == pair).all(-1)]
        expected = edge[e] + uses.mean(0) if len(uses) else edge[e]
        torch.testing.assert_close(new_edge[e], layer.edge_norm(expected[None])[0])
