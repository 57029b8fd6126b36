"""Bad input is refused with a message that names the offender and the remedy."""

import itertools

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm import DAG, Graph, Grid, GridDAG, Line, TopologyError, UndirectedLine


def refuses(message):
    return pytest.raises(TopologyError, match=message)


def test_topology_errors_are_value_errors():
    assert issubclass(TopologyError, ValueError)


# Edges


@pytest.mark.parametrize(
    ("num_nodes", "edges", "cycle"),
    [
        (3, [[0, 1, 2], [1, 2, 0]], {0, 1, 2}),
        (2, [[0, 1], [1, 0]], {0, 1}),
        (6, [[5, 0, 4, 1, 2, 3], [0, 4, 1, 2, 4, 1]], {1, 2, 4}),
    ],
)
def test_a_cycle_in_a_dag_is_named_by_its_nodes(num_nodes, edges, cycle):
    with refuses(r"contain (\d → )+\d; remove one of them, or use Graph") as caught:
        DAG(num_nodes, edges)
    path = str(caught.value).split("contain ")[1].split(";")[0]
    nodes = list(map(int, path.split(" → ")))
    assert nodes[0] == nodes[-1]
    assert set(nodes) == cycle
    assert set(itertools.pairwise(nodes)) <= set(zip(*edges, strict=True))
    assert Graph(num_nodes, edges).num_edges == len(edges[0])


def test_a_self_loop_in_a_dag_is_a_cycle():
    with refuses("contain 1 → 1; .* use Graph"):
        DAG(3, [[0, 1], [1, 1]])


@pytest.mark.parametrize("kind", [DAG, Graph])
def test_an_edge_out_of_range_is_named(kind):
    with refuses(r"edge 1 \(2 → 5\) is out of range: nodes are numbered 0 to 2; correct the edge or raise num_nodes"):
        kind(3, [[0, 2, 9], [1, 5, 0]])


@pytest.mark.parametrize("kind", [DAG, Graph])
def test_a_negative_node_is_named(kind):
    with refuses(r"edge 0 \(-1 → 0\) is out of range: nodes are numbered 0 to 2"):
        kind(3, [[-1], [0]])


@pytest.mark.parametrize("kind", [DAG, Graph])
@pytest.mark.parametrize(
    "edges",
    [
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([[0.0], [1.0]], dtype=torch.bfloat16),
        np.array([[0.0], [1.0]]),
        [[0.5], [1]],
        torch.tensor([[False], [True]]),
    ],
    ids=["float32", "bfloat16", "numpy", "list", "bool"],
)
def test_edges_must_be_integers(kind, edges):
    with refuses(r"must hold integers, found .*(float|bool).*; convert it with \.long\(\)"):
        kind(3, edges)


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ([[0, 1], [1, 2], [0, 2]], r"\[3, 2\]"),
        ([0, 1], r"\[2\]"),
        ([], r"\[0\]"),
        (np.zeros((2, 1, 1), int), r"\[2, 1, 1\]"),
    ],
)
def test_the_shape_of_edge_index_is_checked(edges, found):
    with refuses(rf"shape \[2, E\], found {found}.*numpy.transpose"):
        Graph(3, edges)


@pytest.mark.parametrize("none", [np.empty((2, 0), int), [[], []], torch.empty(2, 0, dtype=torch.long)])
def test_no_edges_at_all_are_fine(none):
    assert Graph(3, none).edge_index.shape == (2, 0)
    assert DAG(3, none).edge_index.dtype == torch.int64


# Duplicates and their repair


@pytest.mark.parametrize("kind", [DAG, Graph])
def test_a_duplicate_edge_is_named_and_merge_edges_repairs_it(kind):
    edges = torch.tensor([[2, 0, 2, 0], [3, 1, 3, 2]])
    with refuses(r"edge 2 → 3 appears more than once \(columns 0 and 2\); merge duplicates .*merge_edges"):
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


# Sizes

MAKERS = {
    "Line": Line,
    "UndirectedLine": UndirectedLine,
    "DAG": lambda n: DAG(n, np.empty((2, 0), int)),
    "Graph": lambda n: Graph(n, np.empty((2, 0), int)),
    "GridDAG": lambda n: GridDAG((2, n)),
    "Grid": lambda n: Grid((n, 2)),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@makers
@pytest.mark.parametrize("num_nodes", [0, -2])
def test_a_topology_needs_a_node(make, num_nodes):
    with refuses(f"at least one node, found {num_nodes}; leave empty topologies out"):
        make(num_nodes)


@makers
@pytest.mark.parametrize("num_nodes", [True, 3.0, "3", None])
def test_a_number_of_nodes_is_an_integer(make, num_nodes):
    with refuses(f"must be an integer, found {num_nodes!r}"):
        make(num_nodes)


@makers
def test_numpy_integers_are_integers(make):
    assert make(np.int64(3)) == make(3)


@pytest.mark.parametrize("kind", [Grid, GridDAG])
@pytest.mark.parametrize("shape", [(), 5, "34", None], ids=repr)
def test_a_bad_grid_shape_is_named(kind, shape):
    with refuses(r"shape is a tuple with a size per axis, e.g. \(14, 14\); found") as caught:
        kind(shape)
    assert repr(shape) in str(caught.value)


@pytest.mark.parametrize("corner", [(0,), (0, 0, 0), (0, 2), (-1, 0), "01", (), 1], ids=repr)
def test_a_bad_corner_is_named(corner):
    with refuses(r"a corner is 0 or 1 for each of the 2 axes of \(3, 4\), found"):
        GridDAG((3, 4), corner)


# Unions


def test_an_empty_batch_is_refused():
    with refuses("at least one topology, found none"):
        chimera.batch([])


@pytest.mark.parametrize(("other", "name"), [(3, "int"), (torch.zeros(2, 1), "Tensor"), (None, "NoneType")])
def test_a_batch_of_other_things_is_refused(other, name):
    with refuses(f"sequence of topologies, found {name} in it"):
        chimera.batch([Line(3), other])


@pytest.mark.parametrize("alone", [Line(3), None], ids=repr)
def test_a_batch_is_made_of_a_sequence(alone):
    with refuses("sequence of topologies"):
        chimera.batch(alone)


def test_parts_with_different_numbers_of_dags_are_named():
    union = chimera.batch([Line(3), UndirectedLine(3), Grid((2, 2))])
    with refuses(
        r"the same number of DAGs, found .*'Grid', 4.*'Line', 1.*'UndirectedLine', 2.*batch topologies of one kind"
    ):
        union.dags()


# Structure that cyclic graphs do not have


@pytest.mark.parametrize("what", ["levels", "topological_order", "longest_path", "level_plan", "sorted_block_plan"])
@pytest.mark.parametrize(
    "topology",
    [
        UndirectedLine(3),
        Grid((2, 2)),
        Graph(3, [[0, 1, 2], [1, 2, 0]]),
        Graph(2, [[1], [1]]),
        chimera.batch([Line(3), UndirectedLine(2)]),
    ],
    ids=repr,
)
def test_cyclic_graphs_have_no_levels(topology, what):
    with refuses(r"only an acyclic topology has .* has cycles; use one of its dags\(\), or a solver") as caught:
        getattr(topology, what)
    assert repr(topology) in str(caught.value)
