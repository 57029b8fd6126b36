"""Levels, distances and components against their slow definitions."""

import numpy as np
import pytest
from hypothesis import given, settings

import chimera_ssm as chimera
from chimera_ssm.topology import traversal
from tests import zoo
from tests.chimera_ssm.topology.definitions import (
    dags,
    graphs,
    pairs,
    slow_components,
    slow_diameter,
    slow_distances,
    slow_levels,
    slow_longest_path,
)

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
acyclic = pytest.mark.parametrize("topology", zoo.ACYCLIC.values(), ids=zoo.ACYCLIC)
quick = settings(deadline=None, max_examples=50, derandomize=True)


# Levels


def check_levels(topology):
    levels = slow_levels(topology)
    assert topology.levels.tolist() == levels
    place = {node: k for k, node in enumerate(topology.topological_order.tolist())}
    assert sorted(place) == list(range(topology.num_nodes))
    assert all(place[source] < place[target] for source, target in pairs(topology))
    assert topology.longest_path == slow_longest_path(topology)


@acyclic
def test_levels_topological_order_and_longest_path(topology):
    check_levels(topology)


@quick
@given(dags())
def test_levels_topological_order_and_longest_path_of_any_dag(topology):
    check_levels(topology)


@every
def test_acyclic_means_that_walks_end(topology):
    assert topology.is_acyclic == (not np.isfinite(np.diag(cycles(topology))).any())


def cycles(topology):
    """Length of the shortest walk of at least one edge between any two nodes."""
    step = np.full((topology.num_nodes, topology.num_nodes), np.inf)
    step[tuple(topology.edge_index.numpy())] = 1
    return (step[:, :, None] + slow_distances(topology)[None]).min(axis=1)


# Distances


@every
def test_diameter(topology):
    assert topology.diameter == slow_diameter(topology)


@quick
@given(graphs() | dags())
def test_diameter_of_any_graph(topology):
    assert topology.diameter == slow_diameter(topology)


def test_diameter_of_more_nodes_than_bits_in_a_word(monkeypatch):
    monkeypatch.setattr(traversal, "_REACH_BYTES", 1)
    cycle = chimera.Graph(150, np.stack([np.arange(150), np.roll(np.arange(150), -1)]))
    assert cycle.diameter == 149
    assert zoo.random_graph(150, 200, seed=5).diameter == slow_diameter(zoo.random_graph(150, 200, seed=5))


@every
def test_distances_from_roots(topology):
    roots = np.array([0, topology.num_nodes - 1])
    found = traversal.distances(topology.num_nodes, *topology.edge_index.numpy(), roots)
    expected = slow_distances(topology)[roots].min(axis=0)
    assert found.tolist() == np.where(np.isfinite(expected), expected, -1).tolist()


@quick
@given(graphs(directed=False))
def test_the_bound_of_an_undirected_diameter_is_at_most_twice_too_large(graph):
    true = slow_diameter(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traversal, "EXACT_DIAMETER_NODES", 0)
        assert true <= graph.diameter <= 2 * true


@quick
@given(dags())
def test_the_bound_of_an_acyclic_diameter_is_the_longest_path(dag):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traversal, "EXACT_DIAMETER_NODES", 0)
        assert slow_diameter(dag) <= dag.diameter == slow_longest_path(dag)


def test_a_large_directed_graph_with_cycles_has_no_bound(monkeypatch):
    monkeypatch.setattr(traversal, "EXACT_DIAMETER_NODES", 3)
    assert chimera.Graph(3, [[0, 1, 2], [1, 2, 0]]).diameter == 2
    with pytest.raises(chimera.TopologyError, match=r"up to 3 nodes, and this one has 4; .*Neumann\(terms=64\)"):
        _ = chimera.Graph(4, [[0, 1, 2, 3], [1, 2, 3, 0]]).diameter


def test_a_batch_of_small_graphs_has_an_exact_diameter(monkeypatch):
    monkeypatch.setattr(traversal, "EXACT_DIAMETER_NODES", 5)
    triangle = chimera.Graph(3, [[0, 1, 2], [1, 2, 0]])
    assert chimera.batch([triangle] * 4 + [chimera.Graph(5, [[0, 1, 2], [1, 2, 3]])]).diameter == 3


# Components, forests, trees


def check_components(topology):
    labels, closing = slow_components(topology)
    assert traversal.components(topology.num_nodes, *topology.edge_index.numpy()).tolist() == labels
    assert topology.is_forest == (closing == 0)
    assert topology.is_tree == (closing == 0 and set(labels) == {0})


@every
def test_components_forests_and_trees(topology):
    check_components(topology)


@quick
@given(graphs() | dags())
def test_components_forests_and_trees_of_any_graph(topology):
    check_components(topology)


@pytest.mark.parametrize(
    ("topology", "forest", "tree"),
    [
        (zoo.random_tree(20), True, True),
        (chimera.batch([zoo.random_tree(5), zoo.random_tree(6)]), True, False),
        (chimera.Graph(3, [[0, 1, 1, 2], [1, 0, 2, 2]]), True, True),
        (chimera.Graph(3, [[0, 1, 2], [1, 2, 0]]), False, False),
        (chimera.Graph(4, [[0, 0, 1], [1, 2, 2]]), False, False),
        (chimera.Line(1), True, True),
    ],
    ids=["tree", "two trees", "tree with a loop", "triangle", "diamond and a node", "one node"],
)
def test_forests_and_trees_by_example(topology, forest, tree):
    assert (topology.is_forest, topology.is_tree) == (forest, tree)
