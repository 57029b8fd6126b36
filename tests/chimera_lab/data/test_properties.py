"""Properties of random graphs: labels are recomputed by networkx."""

import numpy as np
import pytest

from chimera_lab.data import properties as module
from chimera_lab.data.graph import load_graphs
from chimera_lab.data.properties import FAMILIES, LARGEST, SMALLEST, changed, draw_graph, sample

networkx = pytest.importorskip("networkx")


def family(name, size, seed=0):
    edges = FAMILIES[name][1](size, np.random.default_rng(seed))
    graph = networkx.empty_graph(size)
    graph.add_edges_from(np.array(edges).reshape(-1, 2).tolist())
    assert len(graph) == size
    return graph


@pytest.mark.parametrize("index", range(12))
def test_labels(index):
    found = {target: sample(target, "val", index) for target in module.TARGETS}
    x, edges = found["distance"].x, found["distance"].edge_index
    assert all(np.array_equal(other.edge_index, edges) for other in found.values())
    graph = networkx.Graph(edges.T.tolist())
    assert SMALLEST <= len(graph) == len(x) <= LARGEST
    (source,) = np.flatnonzero(x[:, 0])
    paths = dict(networkx.all_pairs_shortest_path_length(graph))
    eccentricity = [max(paths[node].values()) for node in range(len(x))]
    assert found["distance"].y[:, 0].tolist() == [paths[source].get(node, 0) for node in range(len(x))]
    assert found["eccentricity"].y[:, 0].tolist() == eccentricity
    assert found["diameter"].y.tolist() == [[max(eccentricity)]]


@pytest.mark.parametrize("size", [25, 29, 30, 35])
def test_families(size):
    same = networkx.is_isomorphic
    assert same(family("line", size), networkx.path_graph(size))
    assert same(family("star", size), networkx.star_graph(size - 1))
    rows = {25: 5, 29: 1, 30: 5, 35: 5}[size]
    assert same(family("grid", size), networkx.grid_2d_graph(rows, size // rows))
    assert same(family("caveman", size), networkx.caveman_graph(rows, size // rows))
    if size % 2 == 0:
        assert same(family("ladder", size), networkx.ladder_graph(size // 2))
    for seed in range(10):
        for name, layers in (("tree", 1), ("caterpillar", 1), ("lobster", 2)):
            graph = family(name, size, seed)
            assert networkx.is_tree(graph)
            for _ in range(layers):  # without their leaves they become a path
                graph.remove_nodes_from([node for node, degree in [*graph.degree] if degree <= 1])
            assert max((degree for _, degree in graph.degree), default=0) <= 2
        attached = family("barabasi-albert", size, seed)
        assert networkx.is_connected(attached)
        edges = attached.number_of_edges()  # m (T − m): a star of m edges, and m for each further node
        assert edges in {m * (size - m) for m in range(1, size)}


def test_changed_edges_have_the_probabilities_of_the_docstring():
    random = np.random.default_rng(0)
    line = np.eye(30, k=1, dtype=bool) | np.eye(30, k=-1, dtype=bool)
    found = [changed(line, random) for _ in range(2000)]
    assert all(np.array_equal(graph, graph.T) and not graph.diagonal().any() for graph in found)
    mean = np.mean(found, 0)
    assert mean[line].mean() == pytest.approx(1 - 2 * 0.1**2, abs=0.005)
    others = ~line & ~np.eye(30, dtype=bool)
    assert mean[others].mean() == pytest.approx(2 * (0.1 * 29 / (435 - 29)) ** 2, rel=0.3)


def test_no_node_is_isolated():
    random = np.random.default_rng(1)
    assert all(draw_graph(25, random).any(0).all() for _ in range(50))


def test_as_a_data_set(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "COUNTS", {"train": 20, "val": 3, "test": 4})
    for target, level in (("distance", "node"), ("diameter", "graph")):
        found = load_graphs(f"properties:{target}")
        assert (found.node_features, found.edge_features, found.num_labels) == (2, None, 1)
        assert (found.level, found.problem_type) == (level, "regression")
        assert found.train.arrays["y"].max() == 1
        assert [len(part) for part in (found.train, found.validation, found.test)] == [20, 3, 4]
        again = load_graphs(f"properties:{target}")  # from the cache
        np.testing.assert_array_equal(found.test.arrays["y"], again.test.arrays["y"])


def test_bad_names():
    with pytest.raises(ValueError, match=r"are named properties:distance, .* found 'properties:x'"):
        load_graphs("properties:x")
