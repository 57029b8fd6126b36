"""Second derivatives, as those want them who train on forces."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import chimera_ssm as chimera
from tests.chimera_ssm.ops.comparison import force_form
from tests.chimera_ssm.ops.second_derivatives import TOPOLOGIES, assert_twice_differentiable, inputs


@pytest.mark.parametrize("topologies", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_mix(topologies, form):
    assert_twice_differentiable(topologies)


def test_every_entry(form):
    """Not only along random directions."""
    grid = chimera.GridDAG((2, 2))
    V, C, B, weight, scale = inputs([grid])
    assert gradgradcheck(lambda w, *rest: chimera.mix(grid, w, *rest), (weight, C, B, V, scale))


@pytest.mark.parametrize("wanted", range(5))
def test_of_one_argument_alone(wanted, monkeypatch):
    force_form(monkeypatch, "mask")
    line = chimera.Line(5)
    V, C, B, weight, scale = (x.detach() for x in inputs([line]))
    arguments = [weight, C, B, V, scale]

    def squared(x):
        return chimera.mix(line, *arguments[:wanted], x, *arguments[wanted + 1 :]).square()

    assert gradgradcheck(squared, arguments[wanted].requires_grad_(), fast_mode=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["line", "dag", "graph"])
def test_third_derivatives(name, form):
    (topology,) = TOPOLOGIES[name]
    V, C, B, weight, _ = inputs([topology])

    def gradient(*arguments):
        return torch.autograd.grad(chimera.mix(topology, *arguments).square().sum(), arguments, create_graph=True)

    assert gradcheck(gradient, (weight, C, B, V), fast_mode=True)
    assert gradgradcheck(gradient, (weight, C, B, V), fast_mode=True)
