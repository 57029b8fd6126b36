"""Orders by minimum degree: with and without Numba, against an exact minimum degree on sets, and on awkward graphs."""

import importlib
import sys

import numpy as np
import pytest

from chimera_ssm.topology import minimum_degree as compiled
from chimera_ssm.topology.symbolic_lu import plan_elimination
from tests import zoo

ANY = sys.maxsize


@pytest.fixture(scope="module")
def plain():
    """The same functions where Numba is not installed."""
    names = ["chimera_ssm.cpu.compilation", "chimera_ssm.topology.minimum_degree"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)
        for name in names:
            package, _, module = name.rpartition(".")
            patch.delitem(sys.modules, name)
            patch.setattr(sys.modules[package], module, None)
        return importlib.import_module(names[-1])


def links(num_nodes, edges):
    """Begins and links of undirected edges."""
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T.copy()
    return compiled.adjacency_lists(num_nodes, source, target)


def random_links(num_nodes, num_edges, seed):
    return links(num_nodes, np.random.default_rng(seed).integers(0, num_nodes, (num_edges, 2)))


def hubs(num_nodes, count, seed):
    """Most nodes adjacency_lists to a few, and to another."""
    rng = np.random.default_rng(seed)
    node = np.arange(num_nodes)
    edges = [np.stack([node, rng.integers(0, count, num_nodes)], 1) for _ in range(2)]
    return links(num_nodes, np.concatenate([*edges, rng.integers(0, num_nodes, (num_nodes // 2, 2))]))


def grid(height, width):
    node = np.arange(height * width).reshape(height, width)
    return links(
        height * width,
        [*zip(node[1:].flat, node[:-1].flat, strict=True), *zip(node[:, 1:].flat, node[:, :-1].flat, strict=True)],
    )


def entries(begin, neighbours, order):
    return compiled.elimination_tree(begin, neighbours, order, ANY)[1]


def exact_minimum_degree(begin, neighbours):
    """Entries of L + U + D if always a node of the least degree is eliminated, on sets."""
    T = begin.size - 1
    left = {v: set(neighbours[begin[v] : begin[v + 1]].tolist()) for v in range(T)}
    total = T
    while left:
        later = left.pop(min(left, key=lambda v: len(left[v])))
        total += 2 * len(later)
        for v in later:
            left[v] = (left[v] | later) & left.keys() - {v}
    return total


AWKWARD = {
    "one node": links(1, []),
    "no edges": links(9, []),
    "self-loops": links(5, [(0, 0), (1, 2), (2, 2), (2, 1), (3, 3)]),
    "two components": links(8, [(0, 1), (1, 2), (2, 0), (5, 6), (6, 7), (7, 5)]),
    "complete": links(40, [(a, b) for a in range(40) for b in range(a)]),
    "star": links(600, [(0, v) for v in range(1, 600)]),
    "wheel": links(600, [(0, v) for v in range(1, 600)] + [(v, v % 599 + 1) for v in range(1, 600)]),
    "hubs": hubs(900, 5, 0),
    "all dense": links(300, [(a, b) for a in range(300) for b in range(a) if (a * b) % 7]),
    "grid": grid(15, 11),
    "sparse": random_links(200, 260, 0),
    "not so sparse": random_links(60, 400, 1),
    **{f"random {seed}": random_links(2 + 3 * seed, 5 * seed, seed) for seed in range(8)},
}
awkward = pytest.mark.parametrize("graph", AWKWARD.values(), ids=AWKWARD)


@awkward
def test_an_order_has_every_node_once(graph):
    begin, neighbours = graph
    for lifo in (False, True):
        order, *_ = compiled.minimum_degree(begin, neighbours, ANY, lifo)
        assert sorted(order.tolist()) == list(range(begin.size - 1))


@awkward
def test_the_result_is_the_same_without_numba(graph, plain):
    begin, neighbours = graph
    assert not hasattr(plain.best_order, "py_func")
    order, *counts = compiled.best_order(begin, neighbours, ANY)
    other, *other_counts = plain.best_order(begin, neighbours, ANY)
    assert other.tolist() == order.tolist()
    assert other_counts == counts
    (tree, size), (other_tree, other_size) = (
        m.elimination_tree(begin, neighbours, order, ANY) for m in (compiled, plain)
    )
    assert size == other_size
    for one, two in zip(tree, other_tree, strict=True):
        assert one.tolist() == two.tolist()
    rows = [m.rows_of_columns(begin, neighbours, order, tree).tolist() for m in (compiled, plain)]
    assert rows[0] == rows[1]


def test_links_are_the_same_without_numba(plain):
    edges = np.random.default_rng(0).integers(0, 20, (2, 80))
    for one, two in zip(compiled.adjacency_lists(20, *edges), plain.adjacency_lists(20, *edges), strict=True):
        assert one.tolist() == two.tolist()


def test_links_are_sorted_both_ways_and_once():
    begin, neighbours = links(5, [(3, 1), (1, 3), (0, 3), (3, 0), (3, 1), (2, 2), (4, 0)])
    lists = [neighbours[begin[v] : begin[v + 1]].tolist() for v in range(5)]
    assert lists == [[3, 4], [3], [], [0, 1], [0]]


@awkward
def test_the_number_of_entries_is_that_of_the_order(graph):
    """Less only where nodes were set aside for their long lists, which are not counted then."""
    begin, neighbours = graph
    order, count, _ = compiled.best_order(begin, neighbours, ANY)
    long = np.diff(begin).max(initial=0) > 10 * np.sqrt(begin.size - 1)
    assert count <= entries(begin, neighbours, order)
    assert long or count == entries(begin, neighbours, order)


@awkward
def test_there_is_hardly_more_fill_than_with_exact_degrees(graph):
    begin, neighbours = graph
    order, *_ = compiled.best_order(begin, neighbours, ANY)
    assert entries(begin, neighbours, order) <= 1.1 * exact_minimum_degree(begin, neighbours)


def test_on_the_whole_there_is_no_more_fill_than_with_exact_degrees():
    graphs = [random_links(100, 150, seed) for seed in range(20)] + [grid(9, n) for n in range(5, 20)]
    found = sum(entries(*g, compiled.best_order(*g, ANY)[0]) for g in graphs)
    assert found <= 1.01 * sum(exact_minimum_degree(*g) for g in graphs)


@pytest.mark.parametrize("seed", range(3))
def test_trees_have_no_fill_even_with_hubs(seed):
    """Nodes with long lists would go last, and the paths between them fill in, if they were not leaves' neighbours."""
    paths = [(0, 3), (3, 4), (4, 1), (1, 5), (5, 6), (6, 2)]
    leaves = np.stack([np.arange(7, 2000), np.random.default_rng(seed).integers(0, 3, 1993)], 1)
    begin, neighbours = links(2000, np.concatenate([paths, leaves]))
    assert np.diff(begin)[:3].min() > 10 * np.sqrt(2000)
    order, count, _ = compiled.best_order(begin, neighbours, ANY)
    assert count == entries(begin, neighbours, order) == 2000 + 2 * 1999


def test_lists_move_together_when_the_pool_is_full(plain, monkeypatch):
    full = []
    compact = plain.compact
    monkeypatch.setattr(plain, "compact", lambda g, pool: full.append(compact(g, pool)) or full[-1])
    begin, neighbours = grid(40, 40)
    order, count, _ = plain.minimum_degree(begin, neighbours, ANY, False)
    assert full
    assert max(full) <= neighbours.size
    assert sorted(order.tolist()) == list(range(1600))
    assert count == entries(begin, neighbours, order)


@pytest.mark.parametrize("limit", [1, 500, 1000, 1800])
def test_a_limit_stops_both_searches_early(limit):
    begin, neighbours = grid(12, 12)
    full = compiled.best_order(begin, neighbours, ANY)[1]
    _, least, most = compiled.best_order(begin, neighbours, limit)
    assert limit < least <= full <= most


@awkward
def test_a_search_that_ends_knows_the_number(graph):
    _, least, most = compiled.best_order(*graph, ANY)
    assert least == most


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(2000, 6000), (3000, 18_000), (4000, 9000)])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_the_size_of_a_random_graph_is_told_when_it_is_refused(num_nodes, num_edges, share):
    begin, neighbours = random_links(num_nodes, num_edges, 0)
    full = compiled.best_order(begin, neighbours, ANY)[1]
    _, least, most = compiled.best_order(begin, neighbours, int(share * full))
    assert least <= full <= most <= 1.25 * full


def test_a_large_planar_graph_takes_little_time():
    """A quotient graph without its shortcuts takes minutes here."""
    begin, neighbours = grid(200, 200)
    order, count, _ = compiled.best_order(begin, neighbours, ANY)
    assert count == entries(begin, neighbours, order) < 60 * 40_000


def test_a_plan_without_numba_is_the_same(plain, monkeypatch):
    graph = zoo.molecule(60)
    expected = graph.elimination_plan(ANY)
    monkeypatch.setitem(sys.modules, "chimera_ssm.topology.minimum_degree", plain)
    found = plan_elimination(60, *graph.edge_index.numpy(), ANY)
    for name in ("order", "early", "late", "level"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
