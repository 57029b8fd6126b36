"""Kinds of data: what they do with their steps, and which they share."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_matrix
from tests import zoo


@pytest.mark.parametrize(
    ("sharing", "sets"),
    [("none", (0, 1, 2, 3)), ("complete", (0,) * 4), ("row", (0, 0, 1, 1)), ("diagonal", (0, 1, 1, 0))],
)
def test_sharing(sharing, sets):
    assert chimera.OnGrid(sharing=sharing).sets == sets


LINE, BOTH, GRID = chimera.Line(12), chimera.UndirectedLine(12), chimera.Grid((3, 4))
KINDS = {
    "line": (chimera.OnLine(), LINE),
    "two lines": (chimera.OnTwoLines(), BOTH),
    "undirected line": (chimera.OnUndirectedLine(), BOTH),
    "grid": (chimera.OnGrid(), GRID),
    "grid, sqrt": (chimera.OnGrid(normalize="sqrt"), GRID),
    "grid, read row after row": (chimera.OnRaster(), GRID),
    "grid, undirected": (chimera.OnUndirectedGrid(), GRID),
    "dag": (chimera.OnDAG(), zoo.random_dag(12, 20)),
    "graph as dags": (chimera.OnDAG(), zoo.random_graph(12, 14)),
    "graph": (chimera.OnGraph(), zoo.random_graph(12, 14)),
}


@pytest.mark.parametrize("name", KINDS)
def test_terms_have_a_weight_for_each_edge_and_bounded_rows_where_they_say_so(name):
    kind, topology = KINDS[name]
    assert kind.mismatch(topology) is None
    assert len(kind.step_scales) == kind.num_steps
    largest = 0.0
    for scale in (1e-3, 1.0):
        steps = scale * torch.rand(2, 3, kind.num_steps, 12, generator=torch.Generator().manual_seed(0))
        terms = kind.terms(topology, steps, None, None)
        assert len(terms) % len(kind.sets) == 0
        for on, (weight, injected) in terms:
            assert weight.shape == (2, 3, on.num_edges)
            assert injected.shape == (2, 3, 12)
            largest = max(largest, reference_matrix(on, weight).sum(-1).max().item())
    assert (largest > 1 + 1e-6) == (name == "grid, sqrt")
    assert kind.rows_are_bounded == (name not in ("grid, sqrt", "undirected line"))
