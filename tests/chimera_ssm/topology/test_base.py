"""Contracts of the topologies: edge order, immutability, equality, pickling, devices, flips and DAGs."""

import gc
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chimera_ssm as chimera
from chimera_ssm.topology import cache
from chimera_ssm.topology.registry import restore, topology_of
from tests import zoo

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
every_shape = pytest.mark.parametrize("shape", [(1,), (6,), (1, 4), (3, 1), (2, 3), (2, 1, 3), (2, 3, 2, 2)])
META = torch.device("meta")

#: A cycle with a chord, a separate directed edge, an isolated node and a self-loop.
MIXED = chimera.Graph(8, [[0, 1, 2, 3, 0, 2, 5, 7, 3], [1, 2, 3, 0, 2, 0, 4, 7, 2]])


def pairs(topology):
    return list(map(tuple, topology.edge_index.T.tolist()))


def links(shape):
    """Links of a grid by the definition: axis after axis, by the lower end in row-major order."""
    found = []
    for axis, size in enumerate(shape):
        for low in itertools.product(*map(range, shape)):
            if low[axis] + 1 < size:
                high = (*low[:axis], low[axis] + 1, *low[axis + 1 :])
                found.append((axis, np.ravel_multi_index(low, shape), np.ravel_multi_index(high, shape)))
    return found


# Edge order


@pytest.mark.parametrize("num_nodes", [1, 2, 5])
def test_line_edges_join_neighbours_in_order(num_nodes):
    forward = [(e, e + 1) for e in range(num_nodes - 1)]
    backward = [(e + 1, e) for e in range(num_nodes - 1)]
    assert pairs(chimera.Line(num_nodes)) == forward
    assert pairs(chimera.Line(num_nodes, reverse=True)) == backward
    assert pairs(chimera.UndirectedLine(num_nodes)) == forward + backward
    assert pairs(chimera.UndirectedLine(num_nodes, reverse=True)) == backward + forward


@every_shape
def test_grid_edges_go_up_axis_after_axis_and_then_down(shape):
    up = [(low, high) for _, low, high in links(shape)]
    assert pairs(chimera.GridDAG(shape)) == up
    assert pairs(chimera.Grid(shape)) == up + [(high, low) for low, high in up]


@every_shape
def test_all_corners_enumerate_the_same_links(shape):
    for corner in itertools.product((0, 1), repeat=len(shape)):
        expected = [(high, low) if corner[axis] else (low, high) for axis, low, high in links(shape)]
        assert pairs(chimera.GridDAG(shape, corner)) == expected


@every_shape
def test_edges_of_a_grid_know_their_axis(shape):
    axes = [axis for axis, _, _ in links(shape)]
    corner = (1,) * len(shape)
    assert chimera.GridDAG(shape, corner).tensors("edge_axis", torch.device("cpu")).tolist() == axes
    assert chimera.Grid(shape).tensors("edge_axis", torch.device("cpu")).tolist() == axes * 2


@pytest.mark.parametrize("kind", [chimera.DAG, chimera.Graph])
@pytest.mark.parametrize("as_given", [torch.tensor, np.array, list, lambda e: torch.tensor(e, dtype=torch.int32)])
def test_the_edge_order_given_is_kept(kind, as_given):
    edges = [[3, 0, 0, 2], [1, 3, 1, 0]]
    found = kind(4, as_given(edges)).edge_index
    assert found.dtype == torch.int64
    assert found.tolist() == edges


def test_a_batch_concatenates_nodes_and_edges():
    union = chimera.batch([chimera.Line(3), chimera.Graph(2, [[1, 0], [1, 1]]), chimera.Line(2, reverse=True)])
    assert union.num_nodes == 7
    assert pairs(union) == [(0, 1), (1, 2), (4, 4), (3, 4), (6, 5)]


def test_a_batch_of_batches_is_taken_apart():
    a, b, c = chimera.Line(2), chimera.UndirectedLine(3), chimera.GridDAG((2, 2))
    nested = chimera.batch([chimera.batch([a, b]), c])
    assert nested.parts == (a, b, c)
    assert nested == chimera.batch([a, b, c])


@every
def test_in_degree_counts_edges_by_target(topology):
    targets = [target for _, target in pairs(topology)]
    assert topology.in_degree.tolist() == [targets.count(node) for node in range(topology.num_nodes)]


@every
def test_is_symmetric_means_that_every_edge_has_its_reverse(topology):
    edges = set(pairs(topology))
    assert topology.is_symmetric == (edges == {(b, a) for a, b in edges})


@every
def test_edges_are_found_by_their_ends(topology):
    source, target = topology.edge_index.flip(1).numpy()
    assert topology.find_edges(source, target).tolist() == list(range(topology.num_edges))[::-1]


# Identity


@every
def test_topologies_are_immutable(topology):
    with pytest.raises(AttributeError, match="immutable"):
        topology.num_nodes = 3
    with pytest.raises(AttributeError, match="immutable"):
        topology.note = "new"
    with pytest.raises(AttributeError, match="immutable"):
        del topology.num_nodes


@pytest.mark.parametrize("as_given", [torch.tensor, np.array])
def test_writing_to_what_was_given_changes_nothing(as_given):
    edges = as_given([[0, 1], [1, 2]])
    graph = chimera.Graph(3, edges)
    edges[0, 0] = 2
    assert pairs(graph) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: chimera.Line(5),
        lambda: chimera.UndirectedLine(5),
        lambda: chimera.GridDAG((2, 3), (0, 1)),
        lambda: chimera.Grid((2, 3)),
        lambda: chimera.DAG(3, [[0, 0], [1, 2]]),
        lambda: chimera.Graph(3, [[0, 1], [1, 0]]),
        lambda: chimera.batch([chimera.Line(2), chimera.Line(3)]),
    ],
)
def test_equal_if_made_alike_whatever_the_device(make):
    assert make() == make()
    assert hash(make()) == hash(make())
    assert make().to("meta") == make()
    assert hash(make().to("meta")) == hash(make())


def test_different_if_class_nodes_edges_or_their_order_differ():
    edges = [[0, 1], [1, 2]]
    different = [
        chimera.Line(3),
        chimera.Line(4),
        chimera.Line(3, reverse=True),
        chimera.UndirectedLine(3),
        chimera.UndirectedLine(3, reverse=True),
        chimera.GridDAG((3,)),
        chimera.DAG(3, edges),
        chimera.Graph(3, edges),
        chimera.Graph(4, edges),
        chimera.Graph(3, np.flip(edges, axis=1)),
        chimera.batch([chimera.Line(3)]),
        chimera.batch([chimera.Line(3), chimera.Line(1)]),
        chimera.batch([chimera.Line(1), chimera.Line(3)]),
        "Line(3)",
    ]
    assert [(a, b) for a, b in itertools.combinations(different, 2) if a == b] == []
    assert len(set(different)) == len(different)


@every
def test_pickling_keeps_the_topology(topology):
    copy = pickle.loads(pickle.dumps(topology))
    assert copy == topology
    assert hash(copy) == hash(topology)
    assert type(copy) is type(topology)
    assert repr(copy) == repr(topology)
    assert pairs(copy.flip()) == pairs(topology.flip())
    assert pairs(copy) == pairs(topology)


def test_a_pickled_union_is_built_again_in_another_process():
    """In a process that has not seen the topology; all derived structure is computed again."""
    graphs = [zoo.molecule(20), zoo.molecule(31, seed=2), zoo.random_dag(20, 30)]
    plan = graphs[1].elimination_plan(1000)
    code = (
        "import pickle, sys\n"
        "union = pickle.load(sys.stdin.buffer)\n"
        "print(*union.parts[1].elimination_plan(1000).order, *union.parts[2].levels.tolist())\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(chimera.batch(graphs)), capture_output=True, check=True
    )
    assert list(map(int, out.stdout.split())) == [*plan.order, *graphs[2].levels.tolist()]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Graph(3, 'AAAA')", "this is not a pickled topology"),
        ("Graph(3, (1, 2))", "this is not a pickled topology"),
        ("exec('1')", "there is no class 'exec' among Batch, DAG, .*; import the module"),
        ("Line(", "this is not a pickled topology"),
        (3, "this is not a pickled topology"),
        ([], "this is not a pickled topology"),
        ("Line(0)", "at least one node"),
    ],
)
def test_a_pickle_is_checked(spec, message):
    with pytest.raises(chimera.TopologyError, match=message):
        restore(spec)


@every
def test_a_key_is_the_identity(topology):
    copy = pickle.loads(pickle.dumps(topology))
    assert copy.key == topology.key
    assert copy == topology
    assert hash(copy) == hash(topology)
    assert type(topology.key) is str
    assert type(topology.__dict__["num_edges"]) is int
    assert topology.num_edges == topology.edge_index.shape[1]
    assert topology.num_parts == len(topology.parts)


def test_keys_of_different_topologies_differ():
    assert len({t.key for t in zoo.ZOO.values()}) == len(zoo.ZOO)
    edges = [[0, 1], [1, 2]]
    assert len({t.key for t in (chimera.Graph(3, edges), chimera.Graph(4, edges), chimera.DAG(3, edges))}) == 3
    assert chimera.Graph(3, [[0, 1], [1, 2]]) != chimera.Graph(3, [[1, 0], [2, 1]])  # another order of the edges


def test_specifications_build_topologies_again():
    """In a process that has not seen them."""
    specs = [t.spec for t in zoo.ZOO.values()]
    code = (
        "import pickle, sys, chimera_ssm as chimera\n"
        "from chimera_ssm.topology.registry import topology_of\n"
        "sys.stdout.buffer.write(pickle.dumps([topology_of(spec) for spec in pickle.load(sys.stdin.buffer)]))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(specs), capture_output=True, check=True, timeout=120
    )
    for found, expected in zip(pickle.loads(out.stdout), zoo.ZOO.values(), strict=True):
        assert found == expected
        assert torch.equal(found.edge_index, expected.edge_index)


def test_a_living_topology_is_found_by_its_names():
    graph = zoo.molecule(23, seed=5)
    union = chimera.batch([graph, chimera.Line(3)])
    assert topology_of(graph.key).entry is graph.entry
    assert topology_of(graph.spec).entry is graph.entry
    assert topology_of(union.spec).parts[0] is graph


def test_a_key_of_a_graph_that_is_gone_does_not_bring_it_back():
    key = chimera.Graph(5, [[0, 3], [3, 1]]).key
    cache.clear()
    gc.collect()
    with pytest.raises(chimera.TopologyError, match="is gone"):
        topology_of(key)


def test_a_hash_does_not_travel_to_another_process():
    line = chimera.Line(5)
    assert line in {line}
    code = (
        "import pickle, sys, chimera_ssm as chimera;"
        "line = pickle.load(sys.stdin.buffer);"
        "assert line in {chimera.Line(5)}, 'the hash was pickled'"
    )
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(line), check=True, timeout=120)


def test_a_moved_topology_is_pickled_to_the_cpu():
    copy = pickle.loads(pickle.dumps(chimera.Grid((2, 3)).to("meta")))
    assert pairs(copy) == pairs(chimera.Grid((2, 3)))


# Devices


@every
def test_moving_moves_the_tensors_and_leaves_the_original(topology):
    moved = topology.to("meta")
    assert moved.edge_index.device == moved.in_degree.device == moved.device == META
    assert moved.edge_index.shape == (2, topology.num_edges)
    assert topology.edge_index.device.type == "cpu"
    assert topology.to("cpu") is topology
    assert pairs(moved.to("cpu")) == pairs(topology)


@every
def test_flips_of_a_moved_topology_are_on_its_device(topology):
    moved = topology.to("meta").flip()
    assert moved.edge_index.device == META
    assert pairs(moved.to("cpu")) == pairs(topology.flip())


@every
def test_dags_of_a_moved_topology_are_on_its_device(topology):
    expected = topology.dags()  # made first: they must not be handed to the moved topology
    moved = topology.to("meta").dags()
    assert [dag.edge_index.device for dag in moved] == [META] * len(expected)
    assert list(map(pairs, [dag.to("cpu") for dag in moved])) == list(map(pairs, expected))
    assert [dag.edge_index.device.type for dag in topology.dags()] == ["cpu"] * len(expected)


def test_a_batch_is_on_the_device_of_its_first_part():
    assert chimera.batch([chimera.Line(3).to("meta"), chimera.Line(2)]).edge_index.device == META


# Flips


@every
def test_flip_reverses_edges_and_keeps_their_order(topology):
    assert pairs(topology.flip()) == [(b, a) for a, b in pairs(topology)]
    assert topology.flip().num_nodes == topology.num_nodes
    assert type(topology.flip()) is type(topology)


@every
def test_flip_twice_is_the_original(topology):
    assert topology.flip().flip() == topology


# DAGs


def test_dags_of_lines_are_the_two_directions():
    line = chimera.Line(4, reverse=True)
    assert line.dags() == (line,)
    assert chimera.UndirectedLine(4).dags() == (chimera.Line(4), chimera.Line(4, reverse=True))


def test_dags_of_grids_are_the_corners_in_order():
    corner = chimera.GridDAG((2, 3), (1, 0))
    assert corner.dags() == (corner,)
    dags = chimera.Grid((2, 3)).dags()
    assert [dag.corner for dag in dags] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert dags == tuple(chimera.GridDAG((2, 3), dag.corner) for dag in dags)
    assert len(chimera.Grid((2, 2, 2)).dags()) == 8


def test_dags_of_a_dag_are_itself():
    dag = chimera.DAG(3, [[0, 0], [1, 2]])
    assert dag.dags() == (dag,)


def test_dags_of_a_batch_are_unions_of_the_parts():
    union = chimera.batch([chimera.Grid((2, 3)), chimera.Grid((1, 2))])
    first, second = (part.dags() for part in union.parts)
    assert union.dags() == tuple(chimera.batch(row) for row in zip(first, second, strict=True))


def test_dags_of_a_batch_of_graphs_pass_roots_on():
    parts = zoo.random_graph(10, 14), zoo.molecule(12)
    expected = [part.dags(roots=[3, 1]) for part in parts]
    found = chimera.batch(parts).dags(roots=[3, 1])
    assert found == tuple(chimera.batch(row) for row in zip(*expected, strict=True))


@every
def test_dags_are_acyclic_on_the_same_nodes_with_edges_of_the_topology(topology):
    for dag in topology.dags():
        assert dag.is_acyclic
        assert dag.num_nodes == topology.num_nodes
        assert set(pairs(dag)) <= set(pairs(topology))


# Breadth-first DAGs of a graph


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


graphs = pytest.mark.parametrize(
    "graph",
    [MIXED, zoo.molecule(30), zoo.random_graph(30, 18, seed=1), zoo.random_graph(20, 40, directed=True, loops=True)],
    ids=["mixed", "molecule", "disconnected", "directed"],
)


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


@pytest.mark.parametrize("name", ["line 63", "grid dag 5x8", "dag 63", "lines"])
def test_what_is_handed_out_may_be_written(name):
    """Neither tensors nor arrays that a topology hands out share memory with what it knows."""
    topology = zoo.ZOO[name]
    for attribute in ("edge_index", "in_degree", "levels", "topological_order"):
        before = getattr(topology, attribute).tolist()
        getattr(topology, attribute).zero_()
        getattr(topology, attribute).numpy()[...] = -1
        assert getattr(topology, attribute).tolist() == before
    with pytest.raises(ValueError, match="read-only"):
        topology.part_sizes[0] = 3
    if name.startswith("grid"):
        with pytest.raises(ValueError, match="read-only"):
            topology.coordinates[0] = 3
    with torch.inference_mode():
        edges = topology.edge_index
    assert not edges.is_inference()


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_edges_given_may_be_changed_afterwards(make):
    edges = make([[0, 1, 2], [1, 2, 3]])
    graph = chimera.Graph(4, edges)
    weight, rhs = torch.rand(1, 3), torch.randn(1, 4, 2)
    expected = chimera.solve(graph, weight, rhs)
    edges[:] = 0
    assert graph.edge_index.tolist() == [[0, 1, 2], [1, 2, 3]]
    torch.testing.assert_close(chimera.solve(graph, weight, rhs, chimera.Dense()), expected)


def test_a_compiled_function_may_write_the_edges_it_reads():
    graph = chimera.Graph(3, [[0, 1], [1, 2]])

    def moved(x):
        return graph.edge_index.add_(1) + x

    compiled = torch.compile(moved, backend="eager")
    for _ in range(2):
        assert compiled(torch.zeros(1, dtype=torch.int64)).tolist() == [[1, 2], [2, 3]]
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
