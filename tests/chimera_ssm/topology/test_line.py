"""Lines: the order of their edges, and their directions."""

import pytest

import chimera_ssm as chimera
from tests.chimera_ssm.topology.definitions import pairs


@pytest.mark.parametrize("num_nodes", [1, 2, 5])
def test_line_edges_join_neighbours_in_order(num_nodes):
    forward = [(e, e + 1) for e in range(num_nodes - 1)]
    backward = [(e + 1, e) for e in range(num_nodes - 1)]
    assert pairs(chimera.Line(num_nodes)) == forward
    assert pairs(chimera.Line(num_nodes, reverse=True)) == backward
    assert pairs(chimera.UndirectedLine(num_nodes)) == forward + backward
    assert pairs(chimera.UndirectedLine(num_nodes, reverse=True)) == backward + forward


def test_dags_of_lines_are_the_two_directions():
    line = chimera.Line(4, reverse=True)
    assert line.dags() == (line,)
    assert chimera.UndirectedLine(4).dags() == (chimera.Line(4), chimera.Line(4, reverse=True))
