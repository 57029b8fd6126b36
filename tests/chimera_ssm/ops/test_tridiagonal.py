"""Undirected paths: in many chunks, long ones near the bound of their weights, against the dense truth."""

import pytest
import torch

import chimera_ssm as chimera
from tests.chimera_ssm.ops.comparison import (
    DTYPES,
    assert_finite,
    check_mix,
    features,
    force_form,
)

SIZES = pytest.mark.parametrize(("width", "channels"), [(5, 3), (37, 21), (16, 150)])


@DTYPES
@SIZES
def test_undirected_lines_in_many_chunks(width, channels, dtype, monkeypatch):
    topology = chimera.batch([chimera.UndirectedLine(n) for n in (137, 1, 90)])
    """A chunk has at most 64 nodes."""
    force_form(monkeypatch, "state")
    check_mix(topology, chimera.SparseLU(), dtype, width, channels)


def test_an_undirected_line_of_ten_thousand_near_its_bound():
    line = chimera.UndirectedLine(10_000)
    steps = torch.full((2, 10_000), 1e-6)
    weight, scale = chimera.undirected_line_adjacency(line, steps, steps * 1e9, gamma=0.999)
    assert_finite(line, weight, *features(10_000), scale)
