"""Identity: equality, keys, specifications, pickles."""

import gc
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.topology import cache
from chimera_ssm.topology.registry import restore, topology_of
from tests import zoo
from tests.chimera_ssm.topology.definitions import pairs

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)


@every
def test_topologies_are_immutable(topology):
    with pytest.raises(AttributeError, match="immutable"):
        topology.num_nodes = 3
    with pytest.raises(AttributeError, match="immutable"):
        topology.note = "new"
    with pytest.raises(AttributeError, match="immutable"):
        del topology.num_nodes


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
