"""What solvers promise: arguments are not written, and results may be changed in place."""

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo
from tests.chimera_ssm.ops.comparison import (
    CASES,
    SOLVERS,
    assert_close,
    truth,
)

TOPOLOGIES = ["line 63", "lines", "grid dag 5x8", "grid dags", "dag with isolated nodes", "undirected lines",
              "grid 4x6", "graphs", "dense graph"]  # fmt: skip
SOME = [
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


@pytest.mark.parametrize("columns", [5, 16])
@pytest.mark.parametrize(("topology", "solver"), SOME)
def test_a_mix_may_be_changed_in_place(topology, solver, form, columns, engine):
    arguments = inputs(topology, columns)
    expected = gradients(torch.relu(chimera.mix(topology, *arguments, solver=solver) + 1), arguments)
    y = chimera.mix(topology, *arguments, solver=solver)
    y += 1
    for found, wanted in zip(gradients(y.relu_(), arguments), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("topology", "solver"), SOME)
def test_masks_and_solutions_may_be_changed_in_place(topology, solver, engine):
    """They keep their results for the backward pass, as `torch.linalg.solve` does."""
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


@pytest.mark.parametrize(("topology", "solver"), CASES)
def test_arguments_and_gradients_are_not_written(topology, solver, engine):
    """Also if they lie in memory as a solver wants them: then there is nothing to copy before its work in place."""
    weight = zoo.bounded_weights(topology, 2).mT.contiguous().mT.requires_grad_()
    rhs, grad = (torch.randn(topology.num_nodes, 2, 16, dtype=torch.float64).transpose(0, 1) for _ in range(2))
    before = [x.detach().clone() for x in (weight, rhs, grad)]
    references = [x.detach().clone().requires_grad_() for x in (weight, rhs)]
    found = torch.autograd.grad(chimera.solve(topology, weight, rhs.requires_grad_(), solver), (weight, rhs), grad)
    for x, original in zip((weight, rhs, grad), before, strict=True):
        assert torch.equal(x, original)
    x = truth(topology, references[0], solver) @ references[1] + 0 * references[0].sum()
    expected = torch.autograd.grad(x, references, before[2])
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, torch.float64)
