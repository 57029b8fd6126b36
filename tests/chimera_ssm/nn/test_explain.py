"""Explanations of graph models: PyG's algorithms act on the edges, and influence is read off the resolvents."""

import pytest
import torch
from torch import nn

import chimera_ssm as chimera

explain = pytest.importorskip("torch_geometric.explain")

#: Two paths that never meet: 0 ↔ 1 ↔ 2 and 3 ↔ 4 ↔ 5; one edge twice.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5, 0], [1, 0, 2, 1, 4, 3, 5, 4, 1]])


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv1, self.conv2 = chimera.ChimeraConv(4, 8), chimera.ChimeraConv(8, 3)
        for conv in (self.conv1, self.conv2):
            nn.init.normal_(conv.mixer.out_proj.weight)  # as after training: it starts at zero

    def forward(self, x, edge_index, batch=None):
        return self.conv2(self.conv1(x, edge_index, batch=batch).relu(), edge_index, batch=batch)


def explainer(model, algorithm, level="node", node="object", kind="model"):
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": "raw"}
    return explain.Explainer(
        model, algorithm, explanation_type=kind, node_mask_type=node, edge_mask_type="object", model_config=config
    )


def test_gnn_explainer_keeps_to_the_part_of_the_node():
    model, x = TwoLayers(), torch.randn(6, 4)
    found = explainer(model, explain.GNNExplainer(epochs=3), node="attributes")(x, EDGES, index=2)
    here = EDGES[0] < 3
    assert (found.edge_mask[here] > 0).all()
    assert (found.edge_mask[~here] == 0).all()
    assert (found.node_mask[3:] == 0).all()


def test_pg_explainer_trains():
    model, x = TwoLayers(), torch.randn(6, 4)
    algorithm = explain.PGExplainer(epochs=2)
    whole = explainer(model, algorithm, node=None, kind="phenomenon")
    target = model(x, EDGES).argmax(-1)
    algorithm.train(0, model, x, EDGES, target=target, index=2)
    before = [p.clone() for p in algorithm.mlp.parameters()]
    algorithm.train(1, model, x, EDGES, target=target, index=2)
    assert not any(torch.equal(a, b) for a, b in zip(before, algorithm.mlp.parameters(), strict=True))
    assert whole(x, EDGES, target=target, index=2).edge_mask.shape == (9,)


def test_influence_of_a_node():
    model, x = TwoLayers(), torch.randn(6, 4)
    found = explainer(model, chimera.InfluenceExplainer())(x, EDGES, index=2)
    rows = chimera.influence(model, 2, x, EDGES)
    torch.testing.assert_close(found.node_mask[:, 0], torch.stack([row.mean(0) for row in rows]).mean(0))
    assert (found.edge_mask[EDGES[0] < 3] > 0).all()
    assert (found.edge_mask[EDGES[0] > 2] == 0).all()
    assert found.edge_mask[0] == found.edge_mask[8]  # the same edge
    leaving = torch.zeros(6).index_add(0, EDGES[0, :8], found.edge_mask[:8])
    torch.testing.assert_close(leaving + torch.eye(6)[2], found.node_mask[:, 0])


def test_influence_in_a_graph_of_a_batch():
    model, x, batch = TwoLayers(), torch.randn(6, 4), torch.tensor([0, 0, 0, 1, 1, 1])
    algorithm = chimera.InfluenceExplainer()
    found = explainer(model, algorithm, level="graph")(x, EDGES, index=1, batch=batch)
    each = [explainer(model, algorithm)(x, EDGES, index=node).edge_mask for node in (3, 4, 5)]
    algorithm = explainer(model, algorithm, level="graph")  # connected to graphs again
    torch.testing.assert_close(found.edge_mask, torch.stack(each).mean(0))
    everything = algorithm(x, EDGES).edge_mask
    assert (everything > 0).all()


@pytest.mark.parametrize(
    ("options", "message"), [({"level": "edge"}, "explains nodes"), ({"node": "attributes"}, "masks of whole nodes")]
)
def test_settings_that_have_no_influence(options, message, caplog):
    with pytest.raises(ValueError, match="does not support"):
        explainer(TwoLayers(), chimera.InfluenceExplainer(), **options)
    assert message in caplog.text


def test_a_model_without_resolvents():
    class Plain(nn.Linear):
        def forward(self, x, edge_index):
            return super().forward(x)

    with pytest.raises(ValueError, match="Plain has no ChimeraConv"):
        explainer(Plain(4, 3), chimera.InfluenceExplainer())(torch.randn(6, 4), EDGES, index=0)
