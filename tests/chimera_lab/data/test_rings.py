"""Rings: the answer is on the other side, and nowhere else."""

import numpy as np
import pytest

from chimera_lab.data.graph import load_graphs
from chimera_lab.data.rings import QUERY, SOURCE, rings
from chimera_ssm.topology import Graph


def test_the_answer_is_opposite():
    train, test = rings("rings:1-5")
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
    train, test = rings("rings:9")
    again, _ = rings("rings:9")
    np.testing.assert_array_equal(train.arrays["x"], again.arrays["x"])
    kinds = [{store.sample(i)["x"].numpy().tobytes() for i in range(100)} for store in (train, test)]
    assert not kinds[0] & kinds[1]


def test_as_a_data_set():
    found = load_graphs("rings:2-3")
    assert (found.node_features, found.edge_features, found.num_labels) == ([4, 3], None, 4)
    assert (found.level, found.problem_type) == ("node", "single_label_classification")


@pytest.mark.parametrize("name", ["rings:", "rings:0", "rings:3-2", "rings:a", "rings:1-"])
def test_bad_names(name):
    with pytest.raises(ValueError, match=r"rings are named rings:DISTANCE or rings:LOW-HIGH, .* found 'rings:"):
        load_graphs(name)
