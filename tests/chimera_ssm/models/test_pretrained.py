"""Trained weights by name."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.models.card import card as card_of
from chimera_ssm.models.pretrained import weights_folder


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
    with pytest.raises(
        ValueError, match=r"which does not exist; there are none. Leave out pretrained=True to train from the start"
    ):
        chimera.create_model("chimera_text_test", pretrained=True)


TRAINED = [
    "chimera_graph_nci", "chimera_image_digits", "chimera_image_fashion_mnist", "chimera_image_mazes",
    "chimera_text_wikitext2",
]  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_trained_models_come_with_the_package(name):
    assert name in chimera.list_models()
    trained, fresh = chimera.create_model(name, pretrained=True), chimera.create_model(name)
    assert trained.config.to_dict() == fresh.config.to_dict() | {
        key: trained.config.to_dict()[key] for key in ("_name_or_path", "dtype", "architectures")
    }
    assert any(not torch.equal(a, b) for a, b in zip(trained.parameters(), fresh.parameters(), strict=True))
    card = (weights_folder() / name / "README.md").read_text()
    assert f'create_model("{name}", pretrained=True)' in card
    assert card.partition("## Data")[0] == card_of(trained, preset=name).partition("## Data")[0]
    assert "Not recorded" not in card


def test_a_trained_model_with_other_settings():
    model = chimera.create_model("chimera_image_fashion_mnist", pretrained=True, num_labels=3)
    assert model(pixel_values=torch.randn(1, 1, 28, 28)).logits.shape == (1, 3)
    with pytest.raises(ValueError, match="did you mean 'hidden_size'"):
        chimera.create_model("chimera_graph_nci", hiden_size=3)
