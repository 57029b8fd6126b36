"""Sweeps over acyclic graphs: segments, blocks, bundles and small mixes, against the dense truth."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.ops.reference import reference_mix
from chimera_ssm.ops.sweep.layout import Layout
from chimera_ssm.ops.sweep.plan import sweep_plan
from tests import zoo
from tests.chimera_ssm.ops.comparison import (
    DTYPES,
    assert_finite,
    assert_same,
    check_mix,
    features,
    force_form,
    inputs,
    truth,
)
from tests.chimera_ssm.ops.second_derivatives import assert_twice_differentiable


def narrow_dag(num_nodes, seed=0):
    """A DAG whose edges lead at most four nodes ahead, so that few rows are alive at a time; its nodes in disorder."""
    rng = np.random.default_rng(seed)
    ends = np.arange(1, num_nodes).repeat(2)
    starts = np.maximum(ends - rng.integers(1, 5, ends.size), 0)
    return chimera.DAG(num_nodes, rng.permutation(num_nodes)[np.unique([starts, ends], axis=1)])


#: Longer than a segment of the forward pass, which has 512 nodes, but not too long for dense truth.
LONG = pytest.mark.parametrize(
    "topology", [chimera.GridDAG((110, 5), (1, 0)), chimera.GridDAG((140, 2, 2)), narrow_dag(550)], ids=str
)


@DTYPES
@LONG
def test_states_of_long_topologies_are_computed_in_segments(topology, dtype, monkeypatch):
    force_form(monkeypatch, "state")
    check_mix(topology, chimera.Sweep(), dtype)


@LONG
@pytest.mark.parametrize("width", [37, 260])
def test_states_and_channels_of_several_tasks(topology, width, monkeypatch):
    """More states than a block has, more channels than one task; 260 states are several bundles of tasks."""
    force_form(monkeypatch, "state")
    check_mix(topology, chimera.Sweep(), torch.float32, width, 21)
    check_mix(topology, chimera.Sweep(), torch.float64, width, 21)


@pytest.mark.parametrize("topology", [chimera.GridDAG((900, 5), (1, 0)), narrow_dag(4500)], ids=str)
@pytest.mark.parametrize(("width", "channels"), [(5, 3), pytest.param(260, 21, marks=pytest.mark.slow)])
def test_gradients_of_longer_topologies_are_computed_in_segments(topology, width, channels, monkeypatch):
    """A segment of the backward pass has 4,096 nodes: too many for dense truth, so that plain PyTorch is the truth."""
    force_form(monkeypatch, "state")
    arguments = inputs(topology, torch.float64, width, channels)
    weight, C, B, V, scale = arguments = [x[:1].detach().requires_grad_() for x in arguments]
    found = chimera.mix(topology, weight, C, B, V, scale)
    with disable_kernels():
        references = [x.detach().requires_grad_() for x in arguments]
        expected = chimera.mix(topology, *references)
        assert_same(found, expected, arguments, references, torch.float64)


@DTYPES
def test_lines_beside_other_topologies(dtype, monkeypatch):
    """A sum over a line and a grid goes through the kernel of grids."""
    force_form(monkeypatch, "state")
    topologies = [chimera.Line(12), chimera.GridDAG((4, 3))]
    several = [inputs(t, dtype) for t in topologies]
    weights, Cs, Bs, _, scales = zip(*several, strict=True)
    V = several[0][3]
    arguments = [*weights, *Cs, *Bs, V, *scales]
    references = [x.detach().double().requires_grad_() for x in arguments]
    found = chimera.mix(topologies, weights, Cs, Bs, V, scales)
    w, C, B, (v,), a = references[:2], references[2:4], references[4:6], references[6:7], references[7:]
    terms = zip(topologies, w, C, B, a, strict=True)
    expected = sum(reference_mix(truth(t, x, chimera.Sweep()), c, b, v, s) for t, x, c, b, s in terms)
    assert_same(found, expected, arguments, references, dtype)


MEMORY = """
import resource, torch, chimera_ssm as chimera

def step(rows):
    grid = chimera.GridDAG((rows, 4))
    weight = torch.full((1, grid.num_edges), 0.4, requires_grad=True)
    C, B, V = (torch.rand(1, grid.num_nodes, size, requires_grad=True) for size in (128, 128, 16))
    chimera.mix(grid, weight, C, B, V, solver=chimera.Sweep()).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(1)
before = step(2000)
print(step(40_000) - before)
"""


@pytest.mark.slow
def test_what_crosses_segments_is_bounded():
    """The arguments and their gradients take 330 MB; without segments, states would take 410 MB more."""
    run = subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True, text=True, timeout=200)
    assert int(run.stdout) < 600e6


def test_a_large_grid_with_the_bounded_normaliser():
    grid = chimera.GridDAG((100, 100))
    weight, scale = chimera.grid_adjacency(grid, torch.full((2, 2, 10_000), 1e-3))
    assert_finite(grid, weight, *features(10_000), scale)
    row = chimera.solve(grid.flip(), weight, torch.eye(10_000)[-1].expand(2, -1).unsqueeze(-1))
    assert row.min() >= 0
    assert row.max() <= 1


@pytest.mark.parametrize(
    ("topology", "slots", "carried"),
    [(chimera.Line(50), 1, 0), (chimera.GridDAG((6, 9), (1, 1)), 10, 9), (zoo.complete_dag(12), 12, 11)],
)
def test_rows_live_in_few_places(topology, slots, carried):
    """A line's row is handed on, a grid keeps one row of nodes, a complete DAG everything."""
    assert sweep_plan(topology, carry=False).slots <= slots
    assert sweep_plan(topology, carry=True).slots <= carried


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("N", "P", "groups"), [(16, 16, 1), (32, 48, 2), (3, 5, 2)])
@pytest.mark.parametrize(
    "topologies",
    [
        [chimera.Line(4)],
        chimera.UndirectedLine(13).dags(),
        chimera.Grid((3, 5)).dags(),
        [zoo.complete_dag(9)],
        [zoo.random_dag(11, 20), chimera.Line(11)],
        [chimera.Line(3)],
    ],
    ids=str,
)
def test_small_mixes(topologies, N, P, groups, shared):
    """What is done in one call (N and P multiples of 16, T at least 4) and what is not: strided and expanded alike."""
    torch.manual_seed(0)
    T, count = topologies[0].num_nodes, len(topologies)
    weights = [torch.randn(2, 4, t.num_edges, dtype=torch.float64, requires_grad=True) for t in topologies]
    C, B = torch.randn(2, count, T, 2, groups, N, dtype=torch.float64, requires_grad=True).unbind(0)
    Cs, Bs = (list(x.permute(0, 2, 3, 1, 4).unbind(0)) for x in (C, B))
    if shared:
        Cs, Bs = [Cs[0]] * count, [Bs[0]] * count
    V = torch.randn(2, T, 4, P, dtype=torch.float64, requires_grad=True).transpose(1, 2)
    scales = [torch.randn(2, 4, T, dtype=torch.float64, requires_grad=True) for _ in topologies]
    inputs = [*weights, *scales, C, B, V]

    def results(solver):
        y = chimera.mix(list(topologies), weights, Cs, Bs, V, scales, solver=solver)
        return [y, *torch.autograd.grad(y, inputs, torch.tensor(0.5, dtype=y.dtype).expand_as(y))]

    for found, expected in zip(results(None), results(chimera.Dense()), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("topologies", [[chimera.Line(5)], chimera.Grid((2, 3)).dags()], ids=["line", "grid as dags"])
def test_small_layouts(topologies, scaled, monkeypatch):
    T, D = topologies[0].num_nodes, len(topologies)
    assert Layout(list(topologies), (1, 2, T, 16), (1, 1, T, 16), (0,) * D).small
    force_form(monkeypatch, "mask")
    assert_twice_differentiable(topologies, (1, 2, 1, 16, 16), scaled)
