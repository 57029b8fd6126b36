"""The residual block."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.gpu.availability import assume_gpu
from chimera_ssm.nn import Block, Chimera, OnGraph, OnGrid, OnTwoLines
from chimera_ssm.topology import Grid, UndirectedLine
from tests import zoo


def test_block_is_residual_around_its_mixer():
    block = chimera.Block(8, chimera.Chimera(8, 2, 4))
    x, graph = torch.randn(2, 3, 8), chimera.Graph(3, [[0, 1], [1, 2]])
    torch.testing.assert_close(block(x, graph), x + block.mixer(block.norm(x), graph))


def test_drop_path_drops_samples_whole_and_keeps_the_mean():
    torch.manual_seed(0)
    drop, line = chimera.DropPath(0.25), chimera.Line(2)
    y = drop(torch.ones(4000, 2, 3), line)
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert (y == y[:, :1, :1]).all()
    assert abs(y.mean().item() - 1) < 0.05
    assert torch.equal(drop.eval()(torch.ones(4, 2, 3), line), torch.ones(4, 2, 3))


def test_drop_path_drops_graphs_of_a_packed_batch_whole():
    torch.manual_seed(0)
    sizes = [3, 1, 4] * 200
    y = chimera.DropPath(0.5)(torch.ones(sum(sizes), 2), chimera.batch([chimera.Line(n) for n in sizes]))
    graphs = y.split(sizes)
    assert all((g == g[0, 0]).all() for g in graphs)
    kept = sum(g[0, 0].item() == 2 for g in graphs)
    assert 240 < kept < 360


def test_training_drops_and_evaluation_does_not():
    torch.manual_seed(0)
    block = chimera.Block(8, chimera.Chimera(8, 2, 4), drop_path=0.9)
    x, line = torch.randn(50, 3, 8), chimera.Line(3)
    assert (block(x, line) == x).all(dim=(1, 2)).float().mean() > 0.7
    assert (block.eval()(x, line) != x).any(dim=(1, 2)).all()


def test_a_block_continues_from_a_state():
    block, x = chimera.Block(8, chimera.Chimera(8, 2, 4, kind=chimera.OnLine())), torch.randn(2, 5, 8)
    first, state = block(x[:, :3], chimera.Line(3), return_state=True)
    second = block(x[:, 3:], chimera.Line(2), state=state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), block(x, chimera.Line(5)))


def test_features_may_be_wider_than_the_weights():
    block, x = chimera.Block(16, chimera.Chimera(16, 2, 4)).bfloat16(), torch.randn(3, 16)
    y = block(x, chimera.Line(3))
    assert y.dtype == torch.float32
    expected = block.float()(x, chimera.Line(3))
    assert (y - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize(
    ("kind", "topology"),
    [
        (OnTwoLines(), UndirectedLine(50)),
        (OnGrid(), Grid((5, 7))),
        (OnGraph(), chimera.batch([zoo.molecule(20), zoo.molecule(7)])),
    ],
    ids=["line", "grid", "graphs"],
)
def test_on_a_gpu_no_values_are_looked_at(kind, topology):
    """Tensors on ``meta`` have none: whatever would wait for a GPU (item, nonzero, cpu, …) is an error there."""
    pytest.importorskip("triton")
    from chimera_ssm.gpu.launch import recorded_launches

    with torch.device("meta"):
        block = Block(32, Chimera(32, num_heads=2, state_size=4, kind=kind))
        x = torch.empty(topology.num_nodes, 32)
    with assume_gpu(), recorded_launches() as launches:
        block(x, topology).sum().backward()
    assert launches
    assert all(p.grad is not None for p in block.parameters())
