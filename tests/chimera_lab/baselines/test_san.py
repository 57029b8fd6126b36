"""SAN's attention against sums over pairs of nodes."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_lab.baselines.san import GAMMA, FullAttention
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.topology.from_edge_index import from_edge_index


@pytest.mark.parametrize("edges", [True, False])
def test_attention_is_a_sum_over_pairs(edges):
    torch.manual_seed(0)
    config = chimera.ChimeraGraphConfig(hidden_size=6, num_heads=2, edge_features=3 if edges else None)
    attention = FullAttention(config).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(torch.randn_like(parameter))
    batch = torch.tensor([0, 0, 0, 0, 1, 2, 2])
    edge_index = torch.tensor([[0, 1, 1, 2, 5], [1, 0, 2, 1, 6]])
    x, edge = torch.randn(7, 6, dtype=torch.double), torch.randn(5, 6, dtype=torch.double) if edges else None
    structure = GraphStructure(from_edge_index(edge_index, 7, batch), edge_index, batch)
    found = attention(x, edge, structure)
    kinds = {pair: e for e, pair in enumerate(map(tuple, edge_index.t().tolist()))}
    expected = torch.zeros(7, 2, 3, dtype=torch.double)
    for i in range(7):
        total = torch.zeros(2, 1, dtype=torch.double)
        for j in range(7):
            if i == j or batch[i] != batch[j]:
                continue
            if (j, i) in kinds:
                relation = attention.relation + (attention.edge(edge[kinds[j, i]]) if edges else 0)
                product, scale = attention.query(x[i]) * attention.key(x[j]) * relation, 1.0
            else:
                product = attention.far_query(x[i]) * attention.far_key(x[j]) * attention.far_relation
                scale = GAMMA
            weight = scale * (product.view(2, 3).sum(1, keepdim=True) / 3**0.5).clamp(-5, 5).exp()
            expected[i] += weight * attention.value(x[j]).view(2, 3)
            total += weight
        expected[i] /= total.where(total > 0, 1)
    torch.testing.assert_close(found, attention.out(expected.flatten(1)))
