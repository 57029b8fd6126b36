"""Classifiers of equal size with different mixers."""

import pytest
import torch

from chimera_lab import baselines

SIZES = {
    "hidden_size": 48, "num_hidden_layers": 3, "patch_size": 4, "image_size": 16, "num_channels": 1, "num_labels": 5,
    "state_size": 8, "num_heads": 4,
}  # fmt: skip
MIXERS = ("chimera", "s4", "hyena", "vit", "s4_vit", "hyena_vit")
ALL = pytest.mark.parametrize("mixer", MIXERS)


@ALL
@pytest.mark.parametrize("size", [(16, 16), (32, 32), (8, 24), (4, 4)])
def test_any_image_size(mixer, size):
    model = baselines.image_classifier(mixer, **SIZES, drop_path=0.2)
    outputs = model(pixel_values=torch.randn(2, 1, *size), labels=torch.tensor([0, 4]))
    assert outputs.logits.shape == (2, 5)
    outputs.loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@ALL
@pytest.mark.parametrize("target", [60_000, 411_000, 5_000_000])
def test_parameters_match(mixer, target):
    sizes = baselines.match_parameters(mixer, target, **SIZES)
    assert {**sizes, "hidden_size": 48} == SIZES
    assert abs(baselines.image_classifier(mixer, **sizes).num_parameters() / target - 1) <= 0.03


@pytest.mark.parametrize("topology", ["2d", "fwd_rev", "fwd"])
def test_parameters_match_across_topologies(topology):
    target = baselines.image_classifier("chimera", **SIZES).num_parameters()
    sizes = baselines.match_parameters("chimera", target, topology=topology, **SIZES)
    assert abs(baselines.image_classifier("chimera", **sizes).num_parameters() / target - 1) <= 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: baselines.image_classifier("mlp"),
            "one of chimera, s4, hyena, vit, vit_conv, s4_vit, hyena_vit; found 'mlp'",
        ),
        (lambda: baselines.match_parameters("mlp", 10), "mixer must be one of"),
        (
            lambda: baselines.match_parameters("s4", 10, **SIZES),
            "no width gives s4 10 parameters within 3 %: the nearest, 1",
        ),
        (
            lambda: baselines.match_parameters("chimera", 100_000, **{**SIZES, "num_heads": 64}),
            "multiples of 32, to keep heads whole",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
