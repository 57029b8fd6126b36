"""Graphs: their breadth-first DAGs, and edges that appear more than once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chimera_ssm as chimera
from chimera_ssm import DAG, Graph, TopologyError
from tests import zoo
from tests.chimera_ssm.topology.definitions import pairs

#: A cycle with a chord, a separate directed edge, an isolated node and a self-loop.
MIXED = chimera.Graph(8, [[0, 1, 2, 3, 0, 2, 5, 7, 3], [1, 2, 3, 0, 2, 0, 4, 7, 2]])
graphs = pytest.mark.parametrize(
    "graph",
    [MIXED, zoo.molecule(30), zoo.random_graph(30, 18, seed=1), zoo.random_graph(20, 40, directed=True, loops=True)],
    ids=["mixed", "molecule", "disconnected", "directed"],
)


def check_partition(graph, dags):
    """Every edge but the self-loops is in exactly one of the two DAGs of a root, and in the order given."""
    edges = [(a, b) for a, b in pairs(graph) if a != b]
    for away, back in zip(dags[::2], dags[1::2], strict=True):
        assert sorted(pairs(away) + pairs(back)) == sorted(edges)
        assert pairs(away) == [edge for edge in edges if edge in set(pairs(away))]
        assert pairs(back) == [edge for edge in edges if edge in set(pairs(back))]


def distances_from(graph, root):
    """Steps from a root, directions forgotten; nodes that it does not reach are left out."""
    found, front, step = {root: 0}, {root}, 0
    while front:
        step += 1
        front = {b for edge in pairs(graph) for a, b in (edge, edge[::-1]) if a in front and b not in found}
        found.update(dict.fromkeys(front, step))
    return found


@graphs
def test_each_edge_is_in_one_dag_of_each_root(graph):
    assert len(graph.dags()) == 2
    assert len(graph.dags(roots=[0, 3, 1])) == 6
    assert len(graph.dags(roots=3, seed=1)) == 6
    for dags in (graph.dags(), graph.dags(roots=[0, 3, 1]), graph.dags(roots=3, seed=1)):
        check_partition(graph, dags)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.integers(1, 20), st.integers(0, 50), st.integers(0, 10_000), st.booleans(), st.data())
def test_each_edge_is_in_one_dag_of_any_graph(num_nodes, num_links, seed, directed, data):
    graph = zoo.random_graph(num_nodes, num_links, seed, directed=directed, loops=True)
    check_partition(graph, graph.dags(roots=[data.draw(st.integers(0, num_nodes - 1))]))


@graphs
@pytest.mark.parametrize("root", [0, 3])
def test_edges_lead_away_from_the_root_by_distance_then_number(graph, root):
    away, back = graph.dags(roots=[root])
    rank = {node: (step, node) for node, step in distances_from(graph, root).items()}
    assert all(rank[a] < rank[b] for a, b in pairs(away) if a in rank)
    assert all(rank[a] > rank[b] for a, b in pairs(back) if a in rank)


def test_a_component_without_the_root_starts_at_its_first_node():
    two_paths = chimera.batch([chimera.UndirectedLine(3), chimera.UndirectedLine(4)])
    graph = chimera.Graph(7, two_paths.edge_index)
    away, back = graph.dags(roots=[2])
    assert pairs(away) == [(1, 0), (2, 1), (3, 4), (4, 5), (5, 6)]
    assert pairs(back) == [(0, 1), (1, 2), (4, 3), (5, 4), (6, 5)]


def test_a_path_rooted_at_its_ends_gives_the_two_lines():
    path = chimera.Graph(6, chimera.UndirectedLine(6).edge_index)
    away, back = path.dags(roots=[0])
    assert pairs(away) == pairs(chimera.Line(6))
    assert pairs(back) == pairs(chimera.Line(6, reverse=True))
    away, back = path.dags(roots=[5])
    assert pairs(away) == pairs(chimera.Line(6, reverse=True))
    assert pairs(back) == pairs(chimera.Line(6))


def test_random_roots_are_determined_by_the_seed():
    first, second = zoo.molecule(30), zoo.molecule(30)
    assert first.dags(roots=3, seed=1) == second.dags(roots=3, seed=1)
    assert first.dags(roots=3, seed=1) != first.dags(roots=3, seed=2)


@pytest.mark.parametrize("seed", range(3))
def test_random_roots_are_distinct(seed):
    graph = chimera.Graph(9, chimera.UndirectedLine(9).edge_index)
    assert set(graph.dags(roots=9, seed=seed)) == set(graph.dags(roots=range(9)))


@pytest.mark.parametrize(
    ("roots", "message"),
    [
        (0, "from 1 to 8, found 0"),
        (9, "from 1 to 8, found 9"),
        (-1, "from 1 to 8, found -1"),
        ([], r"at least one, found \[\]"),
        ([0, 8], r"from 0 to 7.* found \[0, 8\]"),
        ([-1], r"from 0 to 7.* found \[-1\]"),
    ],
)
def test_bad_roots_are_named(roots, message):
    with pytest.raises(chimera.TopologyError, match=message):
        MIXED.dags(roots=roots)


@pytest.mark.parametrize("roots", [1.5, [1.5], True, "1"], ids=repr)
def test_roots_that_are_not_integers_are_refused(roots):
    with pytest.raises(chimera.TopologyError, match="roots"):
        MIXED.dags(roots=roots)


@pytest.mark.parametrize("kind", [DAG, Graph])
def test_a_duplicate_edge_is_named_and_merge_edges_repairs_it(kind):
    edges = torch.tensor([[2, 0, 2, 0], [3, 1, 3, 2]])
    with pytest.raises(
        TopologyError, match=r"edge 2 → 3 appears more than once \(columns 0 and 2\); merge duplicates .*merge_edges"
    ):
        kind(4, edges)
    merged, attr = chimera.merge_edges(edges)
    assert kind(4, merged).edge_index.tolist() == [[2, 0, 0], [3, 1, 2]]
    assert attr is None


def test_merged_edges_stay_where_they_first_stood_with_mean_features():
    edges = torch.tensor([[2, 0, 2, 1, 0, 2], [1, 0, 1, 2, 0, 1]])
    attr = torch.tensor([[1.0, 0.0], [5.0, 5.0], [2.0, 0.0], [7.0, 8.0], [6.0, 3.0], [6.0, 3.0]])
    merged, mean = chimera.merge_edges(edges, attr)
    assert merged.tolist() == [[2, 0, 1], [1, 0, 2]]
    assert mean.tolist() == [[3.0, 1.0], [5.5, 4.0], [7.0, 8.0]]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_merge_edges_without_duplicates_changes_nothing(shape):
    edges, attr = torch.tensor([[2, 0, 1], [1, 2, 0]]), torch.randn(3, *shape)
    merged, mean = chimera.merge_edges(edges, attr)
    assert torch.equal(merged, edges)
    assert torch.equal(mean, attr)


def test_merge_edges_of_no_edges():
    merged, mean = chimera.merge_edges(torch.empty(2, 0, dtype=torch.long), torch.empty(0, 3))
    assert merged.shape == (2, 0)
    assert mean.shape == (0, 3)


def test_merge_edges_refuses_features_that_do_not_fit():
    edges = torch.tensor([[0, 0], [1, 1]])
    with pytest.raises(ValueError, match=r"2 rows, one per edge, found \[3, 1\]"):
        chimera.merge_edges(edges, torch.ones(3, 1))
    with pytest.raises(ValueError, match=r"must be floating point, found torch.int64"):
        chimera.merge_edges(edges, torch.ones(2, 1).long())
