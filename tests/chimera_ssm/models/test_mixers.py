"""The registry of mixers: what is registered can be selected by its name."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.models import mixers


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch):
    monkeypatch.setattr(mixers, "_BUILDERS", {k: v for k, v in mixers._BUILDERS.items() if k[1] == "chimera"})


class Halves(torch.nn.Module):
    def forward(self, x, topology, edge_attr=None, node_mask=None):
        return x / 2


def test_a_registered_mixer_is_built_from_the_configuration():
    mixers.register_mixer("image", "halves", lambda config: Halves())
    assert mixers.known_mixers("image") == ("chimera", "halves")
    assert mixers.known_mixers("text") == ("chimera",)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "patch_size": 4, "image_size": 8, "num_labels": 3}
    model = chimera.ChimeraForImageClassification(chimera.ChimeraImageConfig(**sizes, mixer="halves"))
    assert sum(isinstance(module, Halves) for module in model.modules()) == 2
    assert model(torch.randn(2, 3, 8, 8)).logits.shape == (2, 3)


def test_unknown_mixers_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of chimera; found 's4'; for a baseline, import chimera_lab.baselines"):
        chimera.ChimeraImageConfig(mixer="s4")
    mixers.register_mixer("image", "halves", lambda config: Halves())
    with pytest.raises(ValueError, match=r"mixer must be one of chimera, halves; found 's4'$"):
        chimera.ChimeraImageConfig(mixer="s4")
