"""Elimination orders and their fill against a symbolic elimination on sets."""

import itertools
import re
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chimera_ssm as chimera
from chimera_ssm.ops.sparse_lu import solver as elimination
from chimera_ssm.topology import cache
from chimera_ssm.topology.symbolic_lu import TooMuchFill
from tests import zoo

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
quick = settings(deadline=None, max_examples=50, derandomize=True)


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(1, 24))
    return zoo.random_graph(
        num_nodes,
        draw(st.integers(0, 3 * num_nodes)),
        draw(st.integers(0, 10_000)),
        directed=draw(st.booleans()),
        loops=draw(st.booleans()),
    )


def plan_of(topology):
    return topology.elimination_plan(sys.maxsize)


def fresh(topology):
    """The same graph, with an empty cache entry that it does not share."""
    if isinstance(topology, chimera.Batch):
        copy = chimera.Batch(topology.parts)
        content = {**copy.entry.content, "_parts": tuple(fresh(part) for part in topology.parts)}
    else:
        copy = chimera.Graph(topology.num_nodes, topology.edge_index)
        content = copy.entry.content
    return cache.Entry(type(copy), content).topology()


def pattern(plan):
    return list(zip(plan.early.tolist(), plan.late.tolist(), strict=True))


def eliminate(topology, order):
    """Pairs early → late that eliminating the nodes in this order touches, on sets."""
    neighbours = {node: set() for node in range(topology.num_nodes)}
    for a, b in topology.edge_index.T.tolist():
        if a != b:
            neighbours[a].add(b)
            neighbours[b].add(a)
    touched = set()
    for node in order:
        later = neighbours.pop(node)
        touched |= {(node, other) for other in later}
        for other in later:
            neighbours[other] |= later - {other}
            neighbours[other].discard(node)
    return touched


def check_plan(topology):
    plan = plan_of(topology)
    order = plan.order.tolist()
    assert sorted(order) == list(range(topology.num_nodes))
    expected = eliminate(topology, order)
    assert len(pattern(plan)) == len(expected)
    assert set(pattern(plan)) == expected
    assert plan.fill == topology.num_nodes + 2 * len(expected)


def check_levels(topology):
    """A group holds the pairs of one level of early nodes, and a level does not touch itself."""
    plan = plan_of(topology)
    expected = np.zeros(topology.num_nodes, dtype=int)
    for node in plan.order:
        early = plan.early[plan.late == node]
        expected[node] = max(expected[early] + 1, default=0)
    assert plan.level.tolist() == expected.tolist()
    groups = list(itertools.pairwise(plan.bounds))
    assert plan.bounds[0] == 0
    assert plan.bounds[-1] == plan.early.size
    for level, (first, last) in enumerate(groups):
        assert (plan.level[plan.early[first:last]] == level).all()


def check_updates(topology):
    """Every two later neighbours of a node are updated once, at the pair that joins them."""
    plan = plan_of(topology)
    pairs, place = pattern(plan), plan.position
    found = []
    for group, (first, _) in enumerate(itertools.pairwise(plan.bounds)):
        for one, other, into in plan.updates(group).T.tolist():
            (early, a), (also, b) = pairs[first + one], pairs[first + other]
            assert early == also
            assert pairs[into] == (a, b)
            found.append((early, a, b))
    expected = [
        (node, *sorted(two, key=lambda v: place[v]))
        for node in range(topology.num_nodes)
        for two in itertools.combinations([late for early, late in pairs if early == node], 2)
    ]
    assert sorted(found) == sorted(expected)


@every
def test_the_pattern_is_that_of_eliminating_on_sets(topology):
    check_plan(topology)


@quick
@given(graphs())
def test_the_pattern_of_any_graph_is_that_of_eliminating_on_sets(graph):
    check_plan(graph)


@every
def test_pairs_are_grouped_by_level(topology):
    check_levels(topology)


@quick
@given(graphs())
def test_levels_and_updates_of_any_graph(graph):
    check_levels(graph)
    check_updates(graph)


@every
def test_every_edge_has_its_place_in_the_factors(topology):
    plan, factors = plan_of(topology), topology.factor_plan
    pairs, edges = pattern(plan), topology.edge_index.T.tolist()
    lower, upper, loops = factors.lower.T.tolist(), factors.upper.T.tolist(), factors.loops.T.tolist()
    assert all(edges[e] == [*pairs[f]] for e, f in lower)
    assert all(edges[e] == [*pairs[f]][::-1] for e, f in upper)
    assert all(edges[e] == [node, node] for e, node in loops)
    assert sorted(e for e, _ in lower + upper + loops) == list(range(topology.num_edges))


@pytest.mark.parametrize(
    "tree",
    [
        *(zoo.random_tree(n, seed) for seed, n in enumerate([1, 2, 3, 10, 63, 200])),
        chimera.UndirectedLine(50),
        chimera.Line(50),
        chimera.Graph(30, [[0] * 29, range(1, 30)]),
        chimera.Graph(30, [range(29), [29] * 29]),
    ],
    ids=repr,
)
def test_trees_have_no_fill(tree):
    assert plan_of(tree).fill == tree.num_nodes + 2 * (tree.num_nodes - 1)


@quick
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_any_tree_has_no_fill(num_nodes, seed):
    assert plan_of(zoo.random_tree(num_nodes, seed)).fill == num_nodes + 2 * (num_nodes - 1)


def test_a_complete_graph_is_full():
    complete = zoo.complete_dag(12)
    assert plan_of(complete).fill == 12 * 12


@pytest.mark.parametrize("seed", range(5))
def test_a_molecule_has_few_entries_per_node(seed):
    assert plan_of(zoo.molecule(150, seed)).fill < 5 * 150


@quick
@given(st.lists(graphs(), min_size=1, max_size=4))
def test_the_plan_of_a_batch_is_the_union_of_its_parts(parts):
    union = chimera.batch(parts)
    joined = plan_of(union)
    pairs, order, level, start = set(), [], [], 0
    for part in parts:
        plan = plan_of(part)
        pairs |= {(early + start, late + start) for early, late in pattern(plan)}
        order += (plan.order + start).tolist()
        level += plan.level.tolist()
        start += part.num_nodes
    assert set(pattern(joined)) == pairs
    assert joined.early.size == len(pairs)
    assert joined.order.tolist() == order
    assert joined.level.tolist() == level
    check_levels(union)
    check_updates(union)


@every
def test_a_limit_of_just_the_fill_is_enough(topology):
    fill = plan_of(topology).fill
    assert fresh(topology).elimination_plan(fill).fill == fill


@every
def test_a_limit_below_the_fill_raises_each_time(topology):
    fill = plan_of(topology).fill
    limited = fresh(topology)
    for _ in range(2):
        with pytest.raises(TooMuchFill) as caught:
            limited.elimination_plan(fill - 1)
        assert caught.value.entries == fill


@every
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_too_much_fill_carries_what_is_needed_at_least(topology, share):
    fill = plan_of(topology).fill
    limit = int(share * fill)
    limited = fresh(topology)
    for _ in range(2):
        with pytest.raises(TooMuchFill) as caught:
            limited.elimination_plan(limit)
        assert limit < caught.value.entries <= fill
    with pytest.raises(TooMuchFill) as caught:
        limited.elimination_plan(limit // 2)
    assert limit // 2 < caught.value.entries <= fill
    assert limited.elimination_plan(fill).fill == fill


def test_a_refused_graph_is_told_the_size_of_its_factors(monkeypatch):
    graph = zoo.random_graph(1500, 6000)
    fill = plan_of(fresh(graph)).fill
    monkeypatch.setattr(elimination, "MAX_ENTRIES", fill // 10)
    reason = chimera.SparseLU().unsupported_reason(graph)
    least, about = (int(number.replace(",", "")) for number in re.findall(r"(?:least|about) ([\d,]+)", reason))
    assert fill // 10 < least <= fill <= about <= 1.25 * fill
    assert f"{about * 4 / 1e9:.1f} GB for each head" in reason
    assert chimera.SparseLU().unsupported_reason(graph) == reason


def test_a_plan_is_found_once():
    graph = zoo.molecule(30)
    assert graph.elimination_plan(1000) is graph.elimination_plan(2000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_do_not_depend_on_the_numbering(dtype):
    nodes = np.random.default_rng(0).permutation(40)
    graph, chance = chimera.Graph(40, nodes[zoo.molecule(40).edge_index]), torch.Generator().manual_seed(0)
    weight = (torch.rand(1, graph.num_edges, generator=chance, dtype=torch.float64) * 0.3).requires_grad_()
    rhs = torch.randn(1, 40, 3, generator=chance, dtype=torch.float64).requires_grad_()
    A = torch.zeros(40, 40, dtype=torch.float64).index_put((graph.edge_index[1], graph.edge_index[0]), weight[0])
    expected = torch.linalg.solve((torch.eye(40) - A)[None], rhs)
    inputs = [x.detach().to(dtype).requires_grad_() for x in (weight, rhs)]
    found = chimera.solve(graph, *inputs, chimera.SparseLU())
    torch.testing.assert_close(found, expected.to(dtype))
    gradients = torch.autograd.grad(expected.square().sum(), (weight, rhs))
    for one, other in zip(torch.autograd.grad(found.square().sum(), inputs), gradients, strict=True):
        torch.testing.assert_close(one, other.to(dtype), rtol=1e-4, atol=1e-4)
