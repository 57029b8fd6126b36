"""Random walks: they follow edges, do not turn back, and are as likely as they should be."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_lab.baselines.walks import past_bits, random_walks


def grid():
    return chimera.Graph(6, [[0, 1, 1, 2, 3, 4, 4, 5, 0, 3, 1, 4, 2, 5], [1, 0, 2, 1, 4, 3, 5, 4, 3, 0, 4, 1, 5, 2]])


def walk(graph, start, steps, seed=0):
    draws = torch.rand(len(start), steps, generator=torch.Generator().manual_seed(seed))
    return random_walks(graph, start, draws)


def test_walks_follow_edges_and_do_not_turn_back():
    graph, start = grid(), torch.arange(6).repeat(20)
    nodes, edges = walk(graph, start, 30)
    assert torch.equal(nodes[:, 0], start)
    assert torch.equal(graph.edge_index[:, edges], torch.stack([nodes[:, :-1], nodes[:, 1:]]))
    assert (nodes[:, 2:] != nodes[:, :-2]).all()  # every node has two neighbours or more


def test_all_ways_on_are_equally_likely():
    nodes, _ = walk(grid(), torch.full((6000,), 1), 2)
    ways, counts = nodes.unique(dim=0, return_counts=True)
    assert len(ways) == 4  # by way of 0 or 2 there is one way on, by way of 4 there are two
    expected = torch.tensor([1000.0 if middle == 4 else 2000.0 for middle in ways[:, 1].tolist()])
    torch.testing.assert_close(counts.float(), expected, rtol=0.1, atol=0)


@pytest.mark.parametrize(
    ("edges", "nodes", "taken"),
    [
        ([[0, 1], [1, 0]], [0, 1, 0, 1], [0, 1, 0]),  # there and back: no other way
        ([[0, 1], [1, 2]], [0, 1, 2, 2], [0, 1, -1]),  # a directed path ends
        ([[0], [0]], [0, 0, 0, 0], [0, 0, 0]),  # a loop
        ([[], []], [0, 0, 0, 0], [-1, -1, -1]),  # no edges
    ],
)
def test_ends(edges, nodes, taken):
    found = walk(chimera.Graph(3, torch.tensor(edges, dtype=torch.long)), torch.tensor([0]), 3)
    assert (found.nodes[0].tolist(), found.edges[0].tolist()) == (nodes, taken)


def test_bits_of_the_past():
    graph, window = grid(), 4
    nodes, _ = walk(graph, torch.arange(6), 12)
    found = past_bits(graph, nodes, window)
    assert found.shape == (6, 13, 7)
    edges = set(map(tuple, graph.edge_index.t().tolist()))
    for w, t in torch.cartesian_prod(torch.arange(6), torch.arange(13)).tolist():
        past = [int(nodes[w, t - s]) if s <= t else None for s in range(1, window + 1)]
        here = int(nodes[w, t])
        assert found[w, t].tolist() == [p == here for p in past] + [(p, here) in edges for p in past[1:]]
