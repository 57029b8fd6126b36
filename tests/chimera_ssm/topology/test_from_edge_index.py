"""PyG's `edge_index` and `batch` as topologies: merged edges, graphs without nodes, features, what is refused."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.topology.from_edge_index import from_edge_index, join_topologies

EDGES = torch.tensor([[4, 0, 1, 0, 4, 5], [5, 1, 0, 1, 4, 4]])  # one of them twice, not graph by graph
BATCH = torch.tensor([0, 0, 2, 3, 3, 3])  # no nodes in graph 1


def test_graphs_of_a_batch_without_duplicates():
    found = from_edge_index(EDGES, 6, BATCH)
    first, second = chimera.Graph(2, [[0, 1], [1, 0]]), chimera.Graph(1, [[], []])
    third = chimera.Graph(3, [[1, 1, 2], [2, 1, 1]])
    assert found.topology == chimera.batch([first, second, third])
    assert torch.equal(found.topology.edge_index[:, found.edge], EDGES)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_features_are_means_over_duplicates(shape):
    features = torch.randn(6, *shape, dtype=torch.float64)
    found = from_edge_index(EDGES, 6, BATCH)
    for edge in range(found.topology.num_edges):
        expected = torch.stack([features[e] for e in range(6) if found.edge[e] == edge]).mean(0)
        torch.testing.assert_close(found.features(features)[edge], expected)
    assert found.features(None) is None


def test_edges_in_order_need_no_numbers():
    line = chimera.UndirectedLine(4)
    found = from_edge_index(line.edge_index, 4)
    assert found.edge is None
    assert found.topology == chimera.Graph(4, line.edge_index)
    assert from_edge_index(line.edge_index, 4).topology.entry is found.topology.entry


def test_what_fits_is_known_again():
    found = from_edge_index(EDGES, 6, BATCH)
    assert found.fits(EDGES, 6, BATCH)
    assert not found.fits(EDGES.flip(1), 6, BATCH)
    assert not found.fits(EDGES, 7, torch.cat([BATCH, BATCH[-1:]]))
    assert not found.fits(EDGES, 6)


def test_topologies_are_joined_to_that_of_their_batch():
    first, second = EDGES[:, 1:4], torch.tensor([[1, 1, 2], [2, 1, 1]])
    joined = join_topologies([from_edge_index(first, 2), from_edge_index(second, 3)])
    batch = torch.tensor([0, 0, 1, 1, 1])
    expected = from_edge_index(torch.cat([first, second + 2], dim=1), 5, batch)
    assert joined.topology == expected.topology
    assert torch.equal(joined.edge, expected.edge)


@pytest.mark.parametrize(
    ("edges", "batch", "message"),
    [
        (EDGES.float(), None, "must hold integers"),
        (EDGES.T, None, r"shape \[2, E\], found \[6, 2\]"),
        (EDGES.to_sparse(), None, "found torch.sparse_coo; sparse matrices are converted"),
        (EDGES + 1, None, r"edge 0 \(5 → 6\) is out of range"),
        (EDGES, BATCH[:5], r"batch must have shape \[6\]"),
        (EDGES, BATCH.flip(0), "batch must be ascending"),
        (EDGES, torch.tensor([0, 0, 0, 0, 0, 1]), r"edge 0 \(4 → 5\) leads from graph 0 to graph 1 of the batch"),
    ],
)
def test_what_is_refused(edges, batch, message):
    with pytest.raises(chimera.TopologyError, match=message):
        from_edge_index(edges, 6, batch)
