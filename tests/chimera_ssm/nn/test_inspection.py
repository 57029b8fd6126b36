"""The influence of nodes is a row of the resolvent; the share of the resolvent in a layer."""

import pytest
import torch
from torch import nn

import chimera_ssm as chimera

CASES = {
    "line": (chimera.OnLine(), chimera.Line(6)),
    "two lines": (chimera.OnTwoLines(), chimera.UndirectedLine(6)),
    "undirected line": (chimera.OnUndirectedLine(), chimera.UndirectedLine(6)),
    "grid": (chimera.OnGrid(2), chimera.Grid((3, 4))),
    "grid, read row after row": (chimera.OnRaster(), chimera.Grid((3, 4))),
    "graph": (chimera.OnGraph(), chimera.Graph(5, [[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_of_the_resolvents(name):
    kind, topology = CASES[name]
    torch.manual_seed(0)
    mixer = chimera.Chimera(16, num_heads=2, state_size=4, kind=kind).double()
    x = torch.randn(3, topology.num_nodes, 16, dtype=torch.float64)
    steps = mixer._steps(mixer.in_proj(x).split(mixer.splits, -1)[2])
    whole = sum(chimera.mask(t, a.weight) for t, a in kind.terms(topology, steps, None, None))
    torch.testing.assert_close(mixer.influence(2, x, topology), whole[:, :, 2])
    torch.testing.assert_close(mixer.influence([4, 0, 2], x, topology), whole[:, :, [4, 0, 2]])


def test_masked_nodes_have_no_influence():
    mixer, topology = chimera.Chimera(8), chimera.Graph(4, [[0, 1, 2, 3], [1, 2, 3, 0]])
    influence = mixer.influence(3, torch.randn(4, 8), topology, node_mask=torch.tensor([True, False, True, True]))
    assert influence.shape == (1, 4)
    assert (influence[:, [0, 1]] == 0).all()
    assert (influence[:, [2, 3]] > 0).all()


def test_influence_has_every_mixer_of_a_model_in_order():
    topology = chimera.Line(5)
    blocks = [chimera.Block(8, chimera.Chimera(8, kind=chimera.OnLine())) for _ in range(3)]

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(blocks)

        def forward(self, x):
            for block in self.blocks:
                x = block(x, topology)
            return x

    x = torch.randn(2, 5, 8)
    rows = chimera.influence(Stack(), 4, x)
    assert [r.shape for r in rows] == [(2, 1, 5)] * 3
    torch.testing.assert_close(rows[0], blocks[0].mixer.influence(4, blocks[0].norm(x), topology))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="numbered 0 to 4, found 5"):
        chimera.Chimera(8).influence(5, torch.randn(5, 8), chimera.Line(5))
    with pytest.raises(ValueError, match="no Chimera mixer"):
        chimera.influence(torch.nn.Linear(2, 2), 0, torch.randn(2))


def test_share_is_the_ratio_of_the_mixed_term_to_the_skip_connection():
    torch.manual_seed(0)
    mixer, line = chimera.Chimera(16, 2, 8, kind=chimera.OnLine()), chimera.Line(9)
    x = torch.randn(3, 9, 16)
    with torch.no_grad():
        mixer.norm.D.copy_(torch.tensor([2.0, 0.5]))
        (found,) = chimera.resolvent_share(mixer, x, line)
        _, features, steps, _ = mixer.in_proj(x).split(mixer.splits, dim=-1)
        V, B, C = mixer._heads(mixer.conv(features, line, activate=True))
        terms = mixer.kind.terms(line, mixer._steps(steps), None, None)
        mixed = chimera.mix(*mixer._operands(terms, V, B, C))
        expected = mixed.square().mean().sqrt() / (mixer.norm.D[:, None, None] * V).square().mean().sqrt()
    assert found == pytest.approx(expected.item(), rel=1e-5)


def test_a_model_without_mixers_is_refused():
    with pytest.raises(ValueError, match="Linear has no Chimera mixer"):
        chimera.resolvent_share(nn.Linear(2, 2), torch.randn(1, 2))


def test_the_influence_through_edges():
    graph = chimera.Graph(4, [[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 2]])
    mixer, x = chimera.Chimera(8, num_heads=2, state_size=4).double(), torch.randn(3, 4, 8, dtype=torch.float64)
    options = {"edge_weight": torch.rand(6, dtype=torch.float64)}
    nodes = [3, 1]
    through, influence = (f(nodes, x, graph, **options) for f in (mixer.edge_influence, mixer.influence))
    assert through.shape == (3, 2, 2, 6)
    # L = I + L A: what leaves a node through its edges is its influence
    leaving = torch.zeros_like(influence).index_add(-1, graph.edge_index[0], through)
    torch.testing.assert_close(leaving + torch.eye(4).double()[nodes], influence)
    torch.testing.assert_close(mixer.edge_influence(1, x, graph, **options), through[..., 1, :])
    identity = chimera.Chimera(8, resolvent="identity")
    assert (identity.edge_influence(1, torch.randn(4, 8), graph) == 0).all()
    with pytest.raises(ValueError, match="OnDAG has no single A on the given edges; use OnGraph or influence"):
        chimera.Chimera(8, kind=chimera.OnDAG()).edge_influence(1, torch.randn(4, 8), graph)
