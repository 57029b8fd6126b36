"""What every topology can do: degrees, lookup of edges, devices, flips, DAGs; and what it hands out."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm import Graph, Grid, Line, TopologyError, UndirectedLine
from tests import zoo
from tests.chimera_ssm.topology.definitions import pairs

every = pytest.mark.parametrize("topology", zoo.ZOO.values(), ids=zoo.ZOO)
META = torch.device("meta")


# Edges


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


@every
def test_dags_are_acyclic_on_the_same_nodes_with_edges_of_the_topology(topology):
    for dag in topology.dags():
        assert dag.is_acyclic
        assert dag.num_nodes == topology.num_nodes
        assert set(pairs(dag)) <= set(pairs(topology))


# What is handed out


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


def test_a_compiled_function_may_write_the_edges_it_reads():
    graph = chimera.Graph(3, [[0, 1], [1, 2]])

    def moved(x):
        return graph.edge_index.add_(1) + x

    compiled = torch.compile(moved, backend="eager")
    for _ in range(2):
        assert compiled(torch.zeros(1, dtype=torch.int64)).tolist() == [[1, 2], [2, 3]]
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]


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
    with pytest.raises(
        TopologyError, match=r"only an acyclic topology has .* has cycles; use one of its dags\(\), or a solver"
    ) as caught:
        getattr(topology, what)
    assert repr(topology) in str(caught.value)
