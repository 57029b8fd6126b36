"""Disjoint unions: nodes, edges and DAGs of their parts."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm import Grid, Line, TopologyError, UndirectedLine
from tests import zoo
from tests.chimera_ssm.topology.definitions import pairs

META = torch.device("meta")


def test_a_batch_concatenates_nodes_and_edges():
    union = chimera.batch([chimera.Line(3), chimera.Graph(2, [[1, 0], [1, 1]]), chimera.Line(2, reverse=True)])
    assert union.num_nodes == 7
    assert pairs(union) == [(0, 1), (1, 2), (4, 4), (3, 4), (6, 5)]


def test_a_batch_of_batches_is_taken_apart():
    a, b, c = chimera.Line(2), chimera.UndirectedLine(3), chimera.GridDAG((2, 2))
    nested = chimera.batch([chimera.batch([a, b]), c])
    assert nested.parts == (a, b, c)
    assert nested == chimera.batch([a, b, c])


def test_a_batch_is_on_the_device_of_its_first_part():
    assert chimera.batch([chimera.Line(3).to("meta"), chimera.Line(2)]).edge_index.device == META


def test_dags_of_a_batch_are_unions_of_the_parts():
    union = chimera.batch([chimera.Grid((2, 3)), chimera.Grid((1, 2))])
    first, second = (part.dags() for part in union.parts)
    assert union.dags() == tuple(chimera.batch(row) for row in zip(first, second, strict=True))


def test_dags_of_a_batch_of_graphs_pass_roots_on():
    parts = zoo.random_graph(10, 14), zoo.molecule(12)
    expected = [part.dags(roots=[3, 1]) for part in parts]
    found = chimera.batch(parts).dags(roots=[3, 1])
    assert found == tuple(chimera.batch(row) for row in zip(*expected, strict=True))


def test_an_empty_batch_is_refused():
    with pytest.raises(TopologyError, match="at least one topology, found none"):
        chimera.batch([])


@pytest.mark.parametrize(("other", "name"), [(3, "int"), (torch.zeros(2, 1), "Tensor"), (None, "NoneType")])
def test_a_batch_of_other_things_is_refused(other, name):
    with pytest.raises(TopologyError, match=f"sequence of topologies, found {name} in it"):
        chimera.batch([Line(3), other])


@pytest.mark.parametrize("alone", [Line(3), None], ids=repr)
def test_a_batch_is_made_of_a_sequence(alone):
    with pytest.raises(TopologyError, match="sequence of topologies"):
        chimera.batch(alone)


def test_parts_with_different_numbers_of_dags_are_named():
    union = chimera.batch([Line(3), UndirectedLine(3), Grid((2, 2))])
    counts = r"the same number of DAGs, found .*'Grid', 4.*'Line', 1.*'UndirectedLine', 2"
    with pytest.raises(TopologyError, match=rf"{counts}.*batch topologies of one kind"):
        union.dags()
