"""Scans over directed paths: in many chunks, very long ones, against the dense truth and the recurrence."""

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


@pytest.mark.parametrize("value", [0.0, -0.4, 1.0, -1.0])
def test_weights_zero_or_negative_on_lines(value):
    line = chimera.Line(300)
    y = assert_finite(line, torch.full((2, 299), value), *features(300))
    assert y.shape == (2, 300, 4)
    undirected = chimera.UndirectedLine(300)
    assert_finite(undirected, torch.full((2, 598), value * 0.49), *features(300))


def test_a_line_of_ten_thousand():
    line = chimera.Line(10_000)
    weight, scale = chimera.dag_adjacency(line, torch.rand(2, 10_000) * 0.1)
    C, B, V = features(10_000)
    y = assert_finite(line, weight, C, B, V, scale)
    h, expected = torch.zeros(2, 4, 4), []
    for t in range(10_000):
        a = weight[:, t - 1, None, None] if t else 0
        h = a * h + scale[:, t, None, None] * B[:, t, :, None] * V[:, t, None, :]
        expected.append((C[:, t, None] @ h).squeeze(1))
    torch.testing.assert_close(y, torch.stack(expected, 1), rtol=2e-4, atol=2e-4)


LINES = pytest.mark.parametrize(
    "topology",
    [chimera.Line(200), chimera.Line(130, reverse=True), chimera.batch([chimera.Line(n) for n in (90, 1, 120)]),
     chimera.DAG(150, torch.randperm(150, generator=torch.Generator().manual_seed(0)).unfold(0, 2, 1).T)],
    ids=str,
)  # fmt: skip
SIZES = pytest.mark.parametrize(("width", "channels"), [(5, 3), (37, 21), (16, 150), (260, 21)])


@DTYPES
@LINES
@SIZES
def test_lines_in_many_chunks(topology, width, channels, dtype, monkeypatch):
    """More states and channels than a tile has, more channels than one task; 260 states are several bundles of tasks.

    A chunk has at most 64 nodes, and the last is shorter than the others.
    """
    force_form(monkeypatch, "state")
    check_mix(topology, chimera.Sweep(), dtype, width, channels)


def test_nothing_as_large_as_all_states_is_kept():
    """T·N·P = 2²² numbers for each head; what autograd keeps is far less."""
    line = chimera.Line(4096)
    weight, V = torch.rand(1, 4095, requires_grad=True), torch.randn(1, 4096, 32)
    C, B = (torch.randn(1, 4096, 32, requires_grad=True) for _ in range(2))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        chimera.mix(line, weight, C, B, V)
    assert 0 < sum(kept) < 4096 * 32 * 32 / 4
