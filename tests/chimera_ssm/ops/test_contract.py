"""Results may be changed in place: the gradient is right, or autograd says that it is not to be had."""

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo
from tests.chimera_ssm.ops.test_functional import ENGINES, SOLVERS, force_form, use_engine

TOPOLOGIES = ["line 63", "lines", "grid dag 5x8", "grid dags", "dag with isolated nodes", "undirected lines",
              "grid 4x6", "graphs", "dense graph"]  # fmt: skip
CASES = [
    pytest.param(zoo.ZOO[name], solver, id=f"{name}-{label}")
    for name in TOPOLOGIES
    for label, solver in SOLVERS.items()
    if solver is None or solver.unsupported_reason(zoo.ZOO[name]) is None
]


def inputs(topology, columns):
    draw, T = torch.Generator().manual_seed(0), topology.num_nodes
    shapes = (1, 1, T, columns), (1, 1, T, columns), (1, 2, T, columns)
    tensors = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]
    return [x.requires_grad_() for x in (zoo.bounded_weights(topology, 1, 2), *tensors)]


def gradients(y, arguments):
    return torch.autograd.grad(y.square().sum(), arguments)


@ENGINES
@pytest.mark.parametrize("columns", [5, 16])
@pytest.mark.parametrize("form", ["mask", "state"])
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_mix(topology, solver, form, columns, engine, monkeypatch):
    force_form(monkeypatch, form)
    use_engine(monkeypatch, engine)
    arguments = inputs(topology, columns)
    expected = gradients(torch.relu(chimera.mix(topology, *arguments, solver=solver) + 1), arguments)
    y = chimera.mix(topology, *arguments, solver=solver)
    y += 1
    for found, wanted in zip(gradients(y.relu_(), arguments), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@ENGINES
@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_mask_and_solve(topology, solver, engine, monkeypatch):
    """They keep their results for the backward pass, as `torch.linalg.solve` does."""
    use_engine(monkeypatch, engine)
    weight, _, _, rhs = inputs(topology, 5)
    for verb, arguments in (chimera.mask, [weight]), (chimera.solve, [weight, rhs]):
        expected = gradients(verb(topology, *arguments, solver=solver) + 1, arguments)
        y = verb(topology, *arguments, solver=solver)
        y += 1
        try:
            found = gradients(y, arguments)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            continue
        for one, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(one, wanted)


@ENGINES
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_layers(engine, dtype, monkeypatch):
    use_engine(monkeypatch, engine)
    torch.manual_seed(0)
    grid, x = chimera.Grid((4, 5)), torch.randn(2, 20, 16, dtype=dtype, requires_grad=True)
    mixer = chimera.Chimera(16, 2, 8, kind=chimera.OnGrid()).to(dtype)
    norm, block = chimera.nn.norm.RMSNorm(16).to(dtype), mixer.kind.conv(16).to(dtype)
    neighbours = chimera.NeighbourConv(16).to(dtype)
    layers = [lambda: mixer(x, grid), lambda: norm(x), lambda: block(x, grid), lambda: block(x, grid, activate=True),
              lambda: neighbours(x, grid), lambda: neighbours(x, grid, activate=True)]  # fmt: skip
    for layer in layers:
        (expected,) = gradients(layer() + 1, [x])
        y = layer()
        y += 1
        (found,) = gradients(y, [x])
        torch.testing.assert_close(found, expected)
