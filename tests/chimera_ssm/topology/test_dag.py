"""DAGs: cycles are named by their nodes."""

import itertools

import pytest

import chimera_ssm as chimera
from chimera_ssm import DAG, Graph, TopologyError


def test_dags_of_a_dag_are_itself():
    dag = chimera.DAG(3, [[0, 0], [1, 2]])
    assert dag.dags() == (dag,)


@pytest.mark.parametrize(
    ("num_nodes", "edges", "cycle"),
    [
        (3, [[0, 1, 2], [1, 2, 0]], {0, 1, 2}),
        (2, [[0, 1], [1, 0]], {0, 1}),
        (6, [[5, 0, 4, 1, 2, 3], [0, 4, 1, 2, 4, 1]], {1, 2, 4}),
    ],
)
def test_a_cycle_in_a_dag_is_named_by_its_nodes(num_nodes, edges, cycle):
    with pytest.raises(TopologyError, match=r"contain (\d → )+\d; remove one of them, or use Graph") as caught:
        DAG(num_nodes, edges)
    path = str(caught.value).split("contain ")[1].split(";")[0]
    nodes = list(map(int, path.split(" → ")))
    assert nodes[0] == nodes[-1]
    assert set(nodes) == cycle
    assert set(itertools.pairwise(nodes)) <= set(zip(*edges, strict=True))
    assert Graph(num_nodes, edges).num_edges == len(edges[0])


def test_a_self_loop_in_a_dag_is_a_cycle():
    with pytest.raises(TopologyError, match=r"contain 1 → 1; .* use Graph"):
        DAG(3, [[0, 1], [1, 1]])
