"""Grids: the order of their edges, axes and corners."""

import itertools

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm import Grid, GridDAG, TopologyError
from tests.chimera_ssm.topology.definitions import pairs

every_shape = pytest.mark.parametrize("shape", [(1,), (6,), (1, 4), (3, 1), (2, 3), (2, 1, 3), (2, 3, 2, 2)])


def links(shape):
    """Links of a grid by the definition: axis after axis, by the lower end in row-major order."""
    found = []
    for axis, size in enumerate(shape):
        for low in itertools.product(*map(range, shape)):
            if low[axis] + 1 < size:
                high = (*low[:axis], low[axis] + 1, *low[axis + 1 :])
                found.append((axis, np.ravel_multi_index(low, shape), np.ravel_multi_index(high, shape)))
    return found


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


def test_dags_of_grids_are_the_corners_in_order():
    corner = chimera.GridDAG((2, 3), (1, 0))
    assert corner.dags() == (corner,)
    dags = chimera.Grid((2, 3)).dags()
    assert [dag.corner for dag in dags] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert dags == tuple(chimera.GridDAG((2, 3), dag.corner) for dag in dags)
    assert len(chimera.Grid((2, 2, 2)).dags()) == 8


@pytest.mark.parametrize("kind", [Grid, GridDAG])
@pytest.mark.parametrize("shape", [(), 5, "34", None], ids=repr)
def test_a_bad_grid_shape_is_named(kind, shape):
    with pytest.raises(TopologyError, match=r"shape is a tuple with a size per axis, e.g. \(14, 14\); found") as caught:
        kind(shape)
    assert repr(shape) in str(caught.value)


@pytest.mark.parametrize("corner", [(0,), (0, 0, 0), (0, 2), (-1, 0), "01", (), 1], ids=repr)
def test_a_bad_corner_is_named(corner):
    with pytest.raises(TopologyError, match=r"a corner is 0 or 1 for each of the 2 axes of \(3, 4\), found"):
        GridDAG((3, 4), corner)
