"""Squaring: the mask of any acyclic topology, with logarithmically many products."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_mask
from chimera_ssm.ops.squaring import SquaredSeries
from tests import zoo


@pytest.mark.parametrize("topology", zoo.ACYCLIC.values(), ids=zoo.ACYCLIC)
def test_masks_and_their_transposes(topology):
    weight = zoo.bounded_weights(topology, 2)
    L, rhs = reference_mask(topology, weight), torch.randn(2, topology.num_nodes, 3, dtype=torch.float64)
    series = SquaredSeries(topology, weight)
    torch.testing.assert_close(series.apply(rhs, False), L @ rhs)
    torch.testing.assert_close(series.apply(rhs, True), L.mT @ rhs)


def test_cycles_are_refused():
    assert "only without cycles" in chimera.Squaring().unsupported_reason(chimera.Grid((2, 2)))
