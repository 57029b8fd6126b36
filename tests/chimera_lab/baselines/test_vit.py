"""ViT, and mixers in place of its attention."""

import pytest
import torch
from transformers import AutoModelForImageClassification, ViTForImageClassification

import chimera_ssm as chimera
from chimera_lab import baselines

SIZES = {
    "hidden_size": 48, "num_hidden_layers": 3, "patch_size": 4, "image_size": 16, "num_channels": 1, "num_labels": 5,
    "state_size": 8, "num_heads": 4,
}  # fmt: skip
IN_VIT = pytest.mark.parametrize("mixer", ["s4_vit", "hyena_vit"])


def test_vit_is_the_one_of_transformers(tmp_path):
    torch.manual_seed(0)
    model = baselines.image_classifier("vit", **SIZES, drop_path=0.5).eval()
    model.save_pretrained(tmp_path)
    twin = ViTForImageClassification.from_pretrained(tmp_path)
    pixels = torch.randn(2, 1, 16, 16)
    torch.testing.assert_close(model(pixels).logits, twin(pixels).logits)
    larger = torch.randn(2, 1, 24, 32)
    torch.testing.assert_close(model(larger).logits, twin(larger, interpolate_pos_encoding=True).logits)


def test_vit_sizes():
    with torch.device("meta"):
        base = baselines.image_classifier("vit", num_hidden_layers=12, num_labels=1000)
        small = baselines.image_classifier("vit", hidden_size=384, num_hidden_layers=12, num_labels=1000)
    assert base.num_parameters() == 86_567_656
    assert small.num_parameters() == 22_050_664
    assert (base.config.num_attention_heads, small.config.num_attention_heads) == (12, 6)


@IN_VIT
def test_a_mixer_in_place_of_attention(mixer):
    """Class token and positions, then layers of norm, mixer, norm and MLP with residuals; the class token is read."""
    torch.manual_seed(0)
    model = baselines.image_classifier(mixer, **SIZES).eval()
    pixels, vit = torch.randn(2, 1, 16, 16), model.vit
    patches = vit.embeddings.patch_embeddings(pixels)
    x = torch.cat([vit.embeddings.cls_token.expand(2, -1, -1), patches], dim=1) + vit.embeddings.position_embeddings
    line = chimera.UndirectedLine(17)
    for layer in vit.layers:
        x = x + layer.attention.mixer(layer.layernorm_before(x), line)
        x = x + layer.mlp(layer.layernorm_after(x))
    torch.testing.assert_close(model(pixels).logits, model.classifier(vit.layernorm(x)[:, 0]))
    assert isinstance(layer.attention.mixer, {"s4_vit": baselines.S4, "hyena_vit": baselines.Hyena}[mixer])
    assert layer.mlp.fc1.weight.shape == (4 * 48, 48)


@IN_VIT
def test_a_mixer_in_vit_comes_back_from_a_folder(mixer, tmp_path):
    model = baselines.image_classifier(mixer, **SIZES).eval()
    model.save_pretrained(tmp_path)
    twin, info = AutoModelForImageClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] | info["unexpected_keys"]
    assert type(twin) is type(model)
    assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), model.parameters(), strict=True))
    assert twin(torch.randn(1, 1, 8, 24), output_hidden_states=True).hidden_states[-1].shape == (1, 13, 48)
    undecayed = {n for n, p in model.named_parameters() if getattr(p, "_no_weight_decay", False)}
    assert "vit.embeddings.cls_token" in undecayed
    assert ("vit.layers.0.attention.mixer.log_decay" in undecayed) == (mixer == "s4_vit")


@pytest.mark.parametrize(("mixer", "parameters"), [("s4_vit", 81_250_024), ("hyena_vit", 87_325_672)])
def test_sizes_of_vit_b_with_other_mixers(mixer, parameters):
    with torch.device("meta"):
        model = baselines.image_classifier(mixer, num_hidden_layers=12, num_labels=1000)
    assert model.num_parameters() == parameters


def test_vit_drops_whole_branches_of_samples():
    model = baselines.image_classifier("vit", **SIZES, drop_path=0.5)
    assert [layer.dropout.probability for layer in model.vit.layers] == [0, 0.25, 0.5]
    torch.manual_seed(0)
    layer, x = model.vit.layers[2], torch.randn(200, 5, 48)
    kept = (layer(x) != x).flatten(1)
    assert 0.15 < 1 - kept.any(1).float().mean() < 0.35  # both branches dropped
    undecayed = {n for n, p in model.named_parameters() if getattr(p, "_no_weight_decay", False)}
    assert undecayed == {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"}


@pytest.mark.parametrize(("width", "std"), [(768, 0.02), (48, 0.08)])
def test_a_narrow_vit_begins_with_larger_weights(width, std):
    torch.manual_seed(0)
    vit = baselines.image_classifier("vit", hidden_size=width, num_hidden_layers=1, image_size=8, patch_size=4)
    weights = [p for name, p in vit.named_parameters() if name.endswith("weight") and p.shape == (width, width)]
    assert len(weights) >= 4
    for weight in weights:
        assert float(weight.std()) == pytest.approx(std, rel=0.1)
