"""The warning before expensive work on general graphs."""

import warnings

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops import cost
from chimera_ssm.topology import cache


def random_graph(nodes, degree):
    draw = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, nodes * degree // 2), generator=draw)
    edges, _ = chimera.merge_edges(torch.cat([ends, ends.flip(0)], dim=1))
    return chimera.Graph(nodes, edges)


def mix(topology, solver=None):
    layer = chimera.Chimera(16, num_heads=1, state_size=4, solver=solver)
    return layer(torch.randn(topology.num_nodes, 16), topology)


def test_one_warning_with_estimates_and_alternatives(monkeypatch):
    cache.clear()
    monkeypatch.setattr(cost, "LONG", 1e-3)
    graph = random_graph(1100, 6)
    with pytest.warns(
        UserWarning, match=r"Graph\(1100 nodes.* is expensive .* entries of the factors per node"
    ) as found:
        mix(graph)
    assert found[0].filename == __file__
    message = str(found[0].message)
    assert "0 s and 0.0 GB for the factors of 1 heads" in message
    assert "solver=Neumann(terms); DAGs, kind=OnDAG(); or fewer edges" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mix(graph)  # said once
        mix(random_graph(1101, 6), chimera.Neumann(4))
        mix(random_graph(500, 6))
        mix(chimera.Grid((1, 1200)))


def test_no_warning_for_work_of_seconds():
    cache.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mix(random_graph(1100, 4))


@pytest.mark.parametrize(("seconds", "words"), [(12.3, "12 s"), (150, "2 min"), (9000, "2 h")])
def test_durations(seconds, words):
    assert cost._duration(seconds) == words
