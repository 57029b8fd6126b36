"""BERT and ViT with Chimera's local convolution."""

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForImageClassification, AutoModelForMaskedLM

from chimera_lab.baselines import image_classifier, text_model

TEXT = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "max_length": 40, "initializer_range": 0.09}
IMAGE = {"hidden_size": 48, "num_hidden_layers": 2, "patch_size": 4, "image_size": 16, "num_channels": 1}


def test_queries_keys_and_values_of_tokens_are_convolved():
    torch.manual_seed(0)
    model = text_model("bert_conv", **TEXT).eval()
    model(torch.randint(5, 50, (2, 11)))
    for layer in model.bert.encoder.layer:
        for projection in (layer.attention.self.query, layer.attention.self.key, layer.attention.self.value):
            x, conv = torch.randn(2, 11, 24), projection.conv
            expected = F.conv1d(projection.linear(x).mT, conv.weight.unsqueeze(1), conv.bias, padding=3, groups=24).mT
            torch.testing.assert_close(projection(x), expected)
            assert conv.weight.shape == (24, 7)


def test_padding_does_not_reach_the_convolution_of_bert():
    torch.manual_seed(0)
    model = text_model("bert_conv", **TEXT).eval()
    ids = torch.randint(5, 50, (1, 9))
    padded, mask = F.pad(ids, (0, 4), value=7), torch.tensor([[1] * 9 + [0] * 4])
    expected = model(ids).logits
    torch.testing.assert_close(model(padded, attention_mask=mask).logits[:, :9], expected)
    torch.testing.assert_close(model(padded, mask).logits[:, :9], expected)
    assert not torch.allclose(model(padded).logits[:, :9], expected)


def test_queries_of_patches_are_convolved_on_the_grid_and_the_class_token_is_not():
    torch.manual_seed(0)
    model = image_classifier("vit_conv", **IMAGE).eval()
    model(torch.randn(2, 1, 12, 20))
    projection = model.vit.layers[1].attention.v_proj
    x, conv = torch.randn(2, 1 + 15, 48), projection.conv
    linear = projection.linear(x)
    grid = linear[:, 1:].mT.unflatten(-1, (3, 5))
    grid = F.conv2d(grid, conv.weight.unsqueeze(1), conv.bias, padding=1, groups=48)
    torch.testing.assert_close(projection(x), torch.cat([linear[:, :1], grid.flatten(2).mT], dim=1))
    assert conv.weight.shape == (48, 3, 3)


@pytest.mark.parametrize("mixer", ["bert_conv", "vit_conv"])
def test_models_with_convolved_attention_come_back_from_a_folder(mixer, tmp_path):
    torch.manual_seed(0)
    text = mixer == "bert_conv"
    model = text_model(mixer, **TEXT) if text else image_classifier(mixer, **IMAGE)
    model.eval().save_pretrained(tmp_path)
    auto = AutoModelForMaskedLM if text else AutoModelForImageClassification
    twin, info = auto.from_pretrained(tmp_path, output_loading_info=True)
    x = torch.randint(5, 50, (2, 11)) if text else torch.randn(2, 1, 16, 24)
    assert type(twin) is type(model)
    assert not info["missing_keys"] | info["unexpected_keys"]
    assert torch.equal(twin(x).logits, model(x).logits)


@pytest.mark.parametrize("mixer", ["bert_conv", "vit_conv"])
def test_convolutions_begin_within_their_bounds(mixer):
    model = text_model(mixer, **TEXT) if mixer == "bert_conv" else image_classifier(mixer, **IMAGE)
    weights = {name: p for name, p in model.named_parameters() if "conv.weight" in name}
    assert len(weights) == 6
    for weight in weights.values():
        bound = weight[0].numel() ** -0.5
        assert 0.9 * bound < weight.abs().max() <= bound
