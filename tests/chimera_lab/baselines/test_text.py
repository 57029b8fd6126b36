"""Text models to compare with: BERT, with learned or rotary positions."""

import pytest
import torch


def test_rotary_positions_are_relative_and_as_many_as_asked_for(tmp_path):
    """A text shifted by ten places gives the same output; with learned positions it does not."""
    from transformers import AutoModelForMaskedLM

    from chimera_lab.baselines import text_model

    torch.manual_seed(0)
    ids = torch.randint(5, 50, (1, 12))
    shifted, mask = torch.cat([torch.zeros(1, 10).long(), ids], 1), torch.tensor([[0] * 10 + [1] * 12])
    sizes = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "max_length": 40, "initializer_range": 0.09}
    for mixer, same in (("bert_rotary", True), ("bert", False)):
        model = text_model(mixer, **sizes)
        model.eval().save_pretrained(tmp_path / mixer)
        twin = AutoModelForMaskedLM.from_pretrained(tmp_path / mixer)
        found = model(shifted, attention_mask=mask).logits[:, 10:]
        assert torch.allclose(model(ids).logits, found, atol=1e-4) == same
        assert torch.equal(twin(ids).logits, model(ids).logits)
        assert not torch.allclose(model(ids).logits.flip(1), model(ids.flip(1)).logits, atol=1e-4)
        assert model.config.max_position_embeddings == 40


def test_bert_has_whole_heads_of_about_64_features():
    from chimera_lab.baselines import text_model

    for width, heads in ((768, 12), (128, 4), (268, 4), (512, 8)):
        with torch.device("meta"):
            model = text_model("bert", hidden_size=width, num_hidden_layers=1)
        assert model.config.num_attention_heads == heads


def test_rotary_heads_have_pairs_of_features():
    from chimera_lab.baselines import text_model

    for width, heads in ((768, 12), (84, 3), (504, 7), (76, 2)):
        with torch.device("meta"):
            model = text_model("bert_rotary", hidden_size=width, num_hidden_layers=1)
        assert model.config.num_attention_heads == heads
    with pytest.raises(ValueError, match="hidden_size must be a multiple of 2, found 31"):
        text_model("bert_rotary", hidden_size=31)


def test_dropout_is_for_models_that_have_it():
    from chimera_lab.baselines import text_model

    for mixer in ("bert", "bert_rotary", "fnet"):
        with torch.device("meta"):
            model = text_model(mixer, dropout=0.0, hidden_size=8, num_hidden_layers=1)
        assert all(m.p == 0 for m in model.modules() if isinstance(m, torch.nn.Dropout))


def test_unknown_mixers_are_refused():
    from chimera_lab.baselines import text_model

    with pytest.raises(ValueError, match=r"mixer must be one of chimera, .*; found 'lstm'"):
        text_model("lstm")
