"""Plans against what they promise: levels, layouts of paths, dense blocks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chimera_ssm as chimera
from tests import zoo
from tests.chimera_ssm.topology.definitions import dags, graphs, pairs, slow_components, slow_levels

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
acyclic = pytest.mark.parametrize("topology", zoo.ACYCLIC.values(), ids=zoo.ACYCLIC)
quick = settings(deadline=None, max_examples=50, derandomize=True)


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
