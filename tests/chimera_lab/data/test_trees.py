"""Tree-NeighborsMatch: labels are looked up by walking down the tree."""

import numpy as np
import pytest

from chimera_lab.data.graph import load_graphs
from chimera_lab.data.trees import TEST, trees


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_label_is_the_value_of_the_roots_key(depth):
    train, test = trees(f"trees:{depth}")
    for sample in (train.sample(0), test.sample(1), test.sample(2)):
        child, parent = sample["edge_index"].tolist()
        parents = dict(zip(child, parent, strict=True))
        leaves = sorted(set(range(len(sample["x"]))) - set(parent))
        for leaf in leaves:  # each is ``depth`` edges below the root
            node = leaf
            for _ in range(depth):
                node = parents[node]
            assert node == 0
        values = {int(key): int(value) for key, value in sample["x"][leaves]}
        assert sorted(values) == sorted(values.values()) == [*range(1, 2**depth + 1)]
        assert sample["labels"][0] == values[int(sample["x"][0, 0])] - 1
        assert (sample["labels"][1:] == -1).all()
        inner = sorted(set(parent) - {0})
        assert (sample["x"][inner] == 0).all()
        assert sample["x"][0, 1] == 0


def test_trees_are_fixed_and_mixed_depths_are_those_of_each():
    _, mixed = trees("trees:3-4")
    _, alone = trees("trees:4")
    np.testing.assert_array_equal(mixed.sample(TEST + 7)["x"], alone.sample(7)["x"])


def test_as_a_data_set():
    found = load_graphs("trees:2-3")
    assert (found.node_features, found.edge_features, found.num_labels) == ([9, 9], None, 8)
    assert (found.level, found.problem_type) == ("node", "single_label_classification")


@pytest.mark.parametrize("name", ["trees:", "trees:0", "trees:9", "trees:3-2", "trees:a"])
def test_bad_names(name):
    with pytest.raises(ValueError, match="trees are named trees:DEPTH or trees:LOW-HIGH"):
        load_graphs(name)
