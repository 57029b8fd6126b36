"""Weight decay: of which parameters, and how much."""

from dataclasses import replace

import pytest
import torch

from chimera_lab.training.optimizer import optimizer, parameter_groups
from tests.chimera_lab.training.tiny import TINY


def test_decay_is_for_matrices_alone():
    from chimera_lab.baselines import image_classifier

    model = image_classifier("chimera", hidden_size=16, num_hidden_layers=1, patch_size=2, image_size=8, num_channels=1)
    decayed, plain = parameter_groups(model, 0.05)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.05, 0.0)
    names = {id(p): name for name, p in model.named_parameters()}
    undecayed = {names[id(p)] for p in plain["params"]}
    assert undecayed | {names[id(p)] for p in decayed["params"]} == set(names.values())
    assert all(p.ndim > 1 for p in decayed["params"])
    for name in names.values():
        if name.endswith(("step_bias", ".D", "bias", "norm.weight")):
            assert name in undecayed
    assert any(name.endswith("step_bias") for name in undecayed)


@pytest.mark.parametrize("decoupled", [True, False])
def test_weight_decay_by_hand(decoupled):
    """Without gradients weights shrink by lr times the decay, or by the decay itself while the rate is at its peak."""
    recipe = replace(TINY, lr=0.01, weight_decay=0.1, decoupled=decoupled)
    model = torch.nn.Linear(2, 1)
    before = model.weight.detach().clone()
    steps = optimizer(model, recipe)
    model(torch.zeros(1, 2)).sum().mul(0).backward()
    for rate, shrunk in ((0.01, 0.1 if decoupled else 0.001), (0.005, 0.05 if decoupled else 0.0005)):
        for group in steps.param_groups:
            group["lr"] = rate
        steps.step()
        before = before * (1 - shrunk)
        torch.testing.assert_close(model.weight, before)
