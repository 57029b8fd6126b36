"""Rings, crossed rings and lollipops: the answer is at a known distance, and nowhere else."""

import numpy as np
import pytest

from chimera_lab.data.graph import load_graphs
from chimera_lab.data.transfer import NAMES, QUERY, SOURCE, TEST, transfer
from chimera_ssm.topology import Graph


def test_the_answer_is_opposite():
    train, test = transfer("rings:1-5")
    for store in (train, test):
        for index in range(12):
            sample = store.sample(index)
            colour, role = sample["x"].T.numpy()
            (speaker,), (asker,) = np.flatnonzero(role == SOURCE), np.flatnonzero(role == QUERY)
            size = len(colour)
            assert size == 2 * (index % 5 + 1)
            assert (speaker + size // 2) % size == asker
            ring = Graph(size, sample["edge_index"])
            assert ring.is_symmetric
            assert ring.diameter == size // 2
            expected = np.full(size, -1)
            expected[asker] = colour[speaker]
            np.testing.assert_array_equal(sample["labels"].numpy(), expected)


def test_rings_are_fixed_and_test_rings_are_others():
    train, test = transfer("rings:9")
    again, _ = transfer("rings:9")
    np.testing.assert_array_equal(train.arrays["x"], again.arrays["x"])
    kinds = [{store.sample(i)["x"].numpy().tobytes() for i in range(100)} for store in (train, test)]
    assert not kinds[0] & kinds[1]


@pytest.mark.parametrize("shape", NAMES)
@pytest.mark.parametrize("distance", [2, 3, 4, 7])
def test_the_source_is_so_many_hops_away(shape, distance):
    networkx = pytest.importorskip("networkx")
    _, test = transfer(f"{shape}:{distance}")
    for index in range(5):
        sample = test.sample(index)
        colour, role = sample["x"].T.numpy()
        (source,), (query,) = np.flatnonzero(role == SOURCE), np.flatnonzero(role == QUERY)
        graph = networkx.DiGraph(sample["edge_index"].T.tolist())
        assert len(graph) == len(colour) == 2 * distance - (shape == "lollipops")
        assert graph.number_of_edges() == sample["edge_index"].shape[1]  # none twice
        assert all(graph.has_edge(k, j) for j, k in graph.edges)
        paths = [*networkx.all_shortest_paths(graph, int(source), int(query))]
        assert len(paths[0]) == distance + 1
        assert len(paths) == {"rings": 2, "crossed-rings": 2 ** (distance - 1), "lollipops": 1}[shape]
        (labelled,) = np.flatnonzero(sample["labels"] >= 0)
        assert (labelled, sample["labels"][labelled]) == (query, colour[source])


def test_transfer_has_all_shapes():
    _, test = transfer("transfer:3-50")
    assert len(test) == 3 * TEST
    for place, shape in enumerate(NAMES):
        _, alone = transfer(f"{shape}:3-50")
        for index in (0, 100):
            assert test.content(place * TEST + index) == alone.content(index)


def test_as_a_data_set():
    found = load_graphs("rings:2-3")
    assert (found.node_features, found.edge_features, found.num_labels) == ([4, 3], None, 4)
    assert (found.level, found.problem_type) == ("node", "single_label_classification")


@pytest.mark.parametrize("name", ["rings:", "rings:0", "rings:3-2", "rings:a", "rings:1-", "lollipops:1"])
def test_bad_names(name):
    with pytest.raises(ValueError, match=r"rings are named rings:DISTANCE or rings:LOW-HIGH, .* found '"):
        load_graphs(name)
