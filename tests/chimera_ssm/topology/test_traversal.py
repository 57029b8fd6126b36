"""Levels, distances, components and path layouts against their slow definitions."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chimera_ssm as chimera
from chimera_ssm.topology import traversal
from tests import zoo

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
acyclic = pytest.mark.parametrize("topology", zoo.ACYCLIC.values(), ids=zoo.ACYCLIC)
quick = settings(deadline=None, max_examples=50, derandomize=True)


@st.composite
def dags(draw):
    num_nodes = draw(st.integers(1, 20))
    return zoo.random_dag(num_nodes, draw(st.integers(0, 3 * num_nodes)), draw(st.integers(0, 10_000)))


@st.composite
def graphs(draw, directed=None):
    num_nodes = draw(st.integers(1, 20))
    return zoo.random_graph(
        num_nodes,
        draw(st.integers(0, 2 * num_nodes)),
        draw(st.integers(0, 10_000)),
        directed=draw(st.booleans()) if directed is None else directed,
        loops=draw(st.booleans()),
    )


def pairs(topology):
    return list(map(tuple, topology.edge_index.T.tolist()))


# The slow definitions


def slow_levels(topology):
    parents = {node: [] for node in range(topology.num_nodes)}
    for source, target in pairs(topology):
        parents[target].append(source)

    @functools.cache
    def level(node):
        return max((level(parent) + 1 for parent in parents[node]), default=0)

    return [level(node) for node in range(topology.num_nodes)]


def slow_longest_path(topology):
    """Largest k for which there is a walk of k edges."""
    step = np.zeros((topology.num_nodes, topology.num_nodes))
    step[tuple(topology.edge_index.numpy())] = 1
    walks, length = step, 0
    while walks.any():
        walks, length = np.minimum(walks @ step, 1), length + 1
    return length


def slow_distances(topology):
    """Floyd and Warshall; infinite where no path leads."""
    distance = np.full((topology.num_nodes, topology.num_nodes), np.inf)
    distance[tuple(topology.edge_index.numpy())] = 1
    np.fill_diagonal(distance, 0)
    for via in range(topology.num_nodes):
        distance = np.minimum(distance, distance[:, via, None] + distance[None, via])
    return distance


def slow_diameter(topology):
    distance = slow_distances(topology)
    return distance[np.isfinite(distance)].max()


def slow_components(topology):
    """Smallest node of each node's component, by merging sets; and the number of links that close a cycle."""
    sets = {node: {node} for node in range(topology.num_nodes)}
    closing = 0
    for a, b in {(min(edge), max(edge)) for edge in pairs(topology) if edge[0] != edge[1]}:
        if sets[a] is sets[b]:
            closing += 1
            continue
        sets[a] |= sets[b]
        for node in sets[b]:
            sets[node] = sets[a]
    return [min(sets[node]) for node in range(topology.num_nodes)], closing


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


@acyclic
def test_the_level_plan_groups_edges_by_the_level_of_their_target(topology):
    plan, levels, edges = topology.level_plan, slow_levels(topology), pairs(topology)
    assert sorted(plan.edges.tolist()) == list(range(topology.num_edges))
    ends = zip(plan.schedule.source.tolist(), plan.schedule.target.tolist(), strict=True)
    assert list(ends) == [edges[e] for e in plan.edges]
    bounds = plan.schedule.bounds
    assert bounds[0] == 0
    assert bounds[-1] == topology.num_edges
    assert len(bounds) == max(levels) + 1
    for group, (first, last) in enumerate(itertools.pairwise(bounds)):
        assert {levels[target] for target in plan.schedule.target[first:last]} == {group + 1}


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


# Layouts of paths


def check_layout(topology, plan):
    """Every edge sits between neighbours of the line, where the plan says, and no edge is left out."""
    edges, none = pairs(topology), topology.num_edges
    nodes = list(range(topology.num_nodes)) if plan.nodes is None else plan.nodes.tolist()
    assert sorted(nodes) == list(range(topology.num_nodes))
    assert plan.ahead.shape == plan.back.shape == (topology.num_nodes,)
    ahead = {place: e for place, e in enumerate(plan.ahead.tolist()) if e != none}
    back = {place: e for place, e in enumerate(plan.back.tolist()) if e != none}
    assert all(edges[e] == (nodes[place - 1], nodes[place]) and place > 0 for place, e in ahead.items())
    assert all(edges[e] == (nodes[place + 1], nodes[place]) for place, e in back.items())
    assert sorted([*ahead.values(), *back.values()]) == list(range(topology.num_edges))
    return back


def is_directed_paths(topology):
    edges = pairs(topology)
    single = all(len({edge[k] for edge in edges}) == len(edges) for k in (0, 1))
    return single and topology.is_acyclic


def is_undirected_paths(topology):
    links = [tuple(link) for link in {frozenset(edge) for edge in pairs(topology)}]
    loops = any(len(link) == 1 for link in links)
    ends = [node for link in links for node in link]
    return not loops and slow_components(topology)[1] == 0 and all(ends.count(node) <= 2 for node in ends)


def check_paths(topology):
    directed, undirected = topology.directed_paths, topology.undirected_paths
    assert (directed is not None) == is_directed_paths(topology)
    assert (undirected is not None) == is_undirected_paths(topology)
    if directed is not None:
        assert check_layout(topology, directed) == {}
    if undirected is not None:
        check_layout(topology, undirected)


@every
def test_paths_are_laid_out_as_a_line(topology):
    check_paths(topology)


@quick
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.sampled_from(["forth", "both"]), st.integers(0, 10_000))
def test_paths_in_any_disorder_are_laid_out(sizes, ways, seed):
    rng = np.random.default_rng(seed)
    kind = chimera.Line if ways == "forth" else chimera.UndirectedLine
    lines = chimera.batch([kind(size) for size in sizes])
    edges = rng.permutation(rng.permutation(lines.num_nodes)[lines.edge_index], axis=1)
    shuffled = chimera.Graph(lines.num_nodes, edges)
    assert shuffled.undirected_paths is not None
    check_paths(shuffled)


@quick
@given(graphs() | dags())
def test_paths_of_any_graph(topology):
    check_paths(topology)


def test_a_directed_cycle_beside_a_path_is_not_paths():
    beside = chimera.Graph(5, [[0, 1, 2, 3], [1, 2, 0, 4]])
    assert beside.directed_paths is None
    assert beside.undirected_paths is None


# Dense blocks


@every
def test_blocks_hold_each_node_and_edge_of_a_part_once(topology):
    plans = [topology.block_plan] + ([topology.sorted_block_plan] if topology.is_acyclic else [])
    sizes = [part.num_nodes for part in topology.parts]
    part = np.repeat(np.arange(len(sizes)), sizes)
    for plan in plans:
        assert plan.shape == (len(sizes), max(sizes))
        assert (plan.node[plan.place] == np.arange(topology.num_nodes)).all()
        assert (plan.node == topology.num_nodes).sum() == plan.node.size - topology.num_nodes
        assert (plan.place // max(sizes) == part).all()
        block, row, column = np.unravel_index(plan.entry, (len(sizes), max(sizes), max(sizes)))
        source, target = topology.edge_index.numpy()
        assert (plan.node.reshape(plan.shape)[block, row] == target).all()
        assert (plan.node.reshape(plan.shape)[block, column] == source).all()
        assert plan.trivial == (plan.place.tolist() == list(range(plan.node.size)))


@acyclic
def test_sorted_blocks_are_strictly_lower_triangular(topology):
    plan = topology.sorted_block_plan
    _, row, column = np.unravel_index(plan.entry, (plan.shape[0], plan.shape[1], plan.shape[1]))
    assert (row > column).all()
