"""Bad sizes and edges are refused with a message that names the offender and the remedy."""

import numpy as np
import pytest
import torch

from chimera_ssm import DAG, Graph, Grid, GridDAG, Line, TopologyError, UndirectedLine


def refuses(message):
    return pytest.raises(TopologyError, match=message)


# Edges


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
