"""Trained weights by name."""

import pytest
import torch

import chimera_ssm as chimera


def test_weights_of_a_preset(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_WEIGHTS", str(tmp_path))
    torch.manual_seed(0)
    model = chimera.create_model("chimera_image_test")
    model.save_pretrained(tmp_path / "chimera_image_test")
    loaded = chimera.create_model("chimera_image_test", pretrained=True)
    assert not loaded.training
    for one, other in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(one, other)
    wider = chimera.create_model("chimera_image_test", pretrained=True, num_labels=11)
    assert wider.classifier.out_features == 11
    assert torch.equal(wider.chimera.patch_embedding.weight, model.chimera.patch_embedding.weight)
    with pytest.raises(ValueError, match=r"no trained weights of 'chimera_text_test'.*there are: chimera_image_test"):
        chimera.create_model("chimera_text_test", pretrained=True)


def test_no_weights_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_WEIGHTS", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"which does not exist; there are none. Wheels come without weights: set"):
        chimera.create_model("chimera_text_test", pretrained=True)
