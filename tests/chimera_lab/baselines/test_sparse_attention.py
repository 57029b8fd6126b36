"""Attention over pairs, against attention with a mask; the pairs of Exphormer and BigBird."""

import torch

from chimera_lab.baselines.node_draws import Places
from chimera_lab.baselines.sparse_attention import attend, block_pairs, random_cycles

SIZES = torch.tensor([1, 2, 5, 40])


def places():
    graph = torch.repeat_interleave(torch.arange(4), SIZES)
    return Places(SIZES, graph, torch.cat([torch.arange(n) for n in SIZES]))


def test_attention_is_that_with_a_mask():
    mask = torch.rand(5, 7) < 0.5
    mask[2] = False
    score, value = torch.randn(5, 7, 2, dtype=torch.double), torch.randn(7, 2, 3, dtype=torch.double)
    target, source = mask.nonzero(as_tuple=True)
    found = attend(100 * score[target, source], value, torch.stack([source, target]), 5)
    weight = (100 * score).masked_fill(~mask.unsqueeze(-1), -torch.inf).softmax(1).nan_to_num()
    torch.testing.assert_close(found, torch.einsum("tsh,shp->thp", weight, value).flatten(1))


def test_random_cycles_visit_every_node_of_a_graph():
    found = random_cycles(places(), 2, training=False)
    assert found.shape == (2, 4 * 48)
    graph = places().graph
    assert torch.equal(graph[found[0]], graph[found[1]])
    assert (torch.bincount(found[0]) == 4).all()
    for cycle in found[:, :96].unflatten(1, (2, 48)).unbind(1):
        following = dict(cycle.t().tolist())
        node, count = following[8], 1
        while node != 8:
            node, count = following[node], count + 1
        assert count == 40


def test_pairs_of_blocks():
    source, target = block_pairs(places(), training=False)
    first = places().first
    assert torch.equal(places().graph[source], places().graph[target])
    assert len(torch.stack([source, target]).unique(dim=1).t()) == len(source)
    paired = torch.zeros(48, 48, dtype=torch.bool)
    paired[target, source] = True
    assert paired[:8, :8].sum() == 1 + 4 + 25  # graphs of up to two blocks: all pairs
    large = paired[first[3] :, first[3] :]
    assert large[:3].all()
    assert large[-1:].all()  # the last block has one node
    assert large[:, :3].all()
    assert large[:, -1:].all()
    block = torch.arange(40) // 3
    near = (block - block.unsqueeze(1)).abs() <= 1
    assert large[near].all()
    between = large[3:-1]
    assert (between.sum(1) <= 8 * 3).all()
    assert between.sum() > (near[3:-1]).sum()
