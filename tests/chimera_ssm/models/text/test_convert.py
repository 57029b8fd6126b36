"""Mamba-2 models of `transformers` as Chimera's and back: logits, gradients, generation, settings."""

import pytest
import torch
from transformers import Mamba2Config, Mamba2ForCausalLM

import chimera_ssm as chimera

WORDS = 50
SETTINGS = {
    "default": {},
    "other": {
        "use_bias": True, "use_conv_bias": False, "n_groups": 4, "conv_kernel": 2, "layer_norm_epsilon": 1e-2,
        "tie_word_embeddings": True, "eos_token_id": [3, 4],
    },
    "limits": {"time_step_limit": (0.05, 0.3), "n_groups": 1, "state_size": 5, "residual_in_fp32": False},
    "no upper limit": {"time_step_limit": (0.1, float("inf")), "expand": 1, "head_dim": 4},
}  # fmt: skip
#: Fields of the configuration that survive a conversion there and back.
SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_heads", "head_dim", "state_size", "n_groups", "expand",
    "conv_kernel", "use_bias", "layer_norm_epsilon", "residual_in_fp32", "tie_word_embeddings", "eos_token_id",
    "time_step_limit",
)  # fmt: skip
OF_SETTINGS = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


def mamba2(**settings):
    """A tiny Mamba-2 with random values in all parameters."""
    torch.manual_seed(0)
    sizes = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8}
    model = Mamba2ForCausalLM(Mamba2Config(**{**sizes, "state_size": 16, "n_groups": 2, "chunk_size": 8, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def tokens(*shape):
    return torch.randint(5, WORDS, shape, generator=torch.Generator().manual_seed(1))


@OF_SETTINGS
def test_logits_and_gradients_are_the_same_there_and_back(settings):
    model, ids = mamba2(**settings), tokens(2, 21)
    ours = chimera.convert_mamba2(model)
    back = chimera.export_mamba2(ours)
    expected = model(ids).logits
    for other in (ours, back):
        torch.testing.assert_close(other(ids).logits, expected, atol=1e-4, rtol=1e-4)
        assert not {p.data_ptr() for p in other.parameters()} & {p.data_ptr() for p in model.parameters()}
    for name in SIZES:
        assert getattr(back.config, name) == getattr(model.config, name), name
    grads = []
    for other, names in (
        (model, ("A_log", "dt_bias", "D", "conv1d")),
        (ours, ("decay_bias", "step_bias", "norm.D", "conv")),
    ):
        other(ids, labels=ids).loss.backward()
        first, second = (layer.mixer for layer in other.base_model.layers)
        a, dt, d, conv = names
        parameters = [first.get_parameter(name) for name in (a, dt, d, f"{conv}.weight", "in_proj.weight")]
        parameters += [other.base_model.embeddings.weight, second.norm.weight, other.base_model.layers[1].norm.weight]
        grads.append([parameter.grad.flatten() for parameter in parameters])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("settings", [SETTINGS["default"], SETTINGS["other"]], ids=["default", "other"])
def test_generation_is_the_same(settings):
    model, ids = mamba2(**settings), tokens(2, 7)
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = model.generate(ids, **options)
    assert torch.equal(chimera.convert_mamba2(model).generate(ids, **options), expected)


def test_folders_are_converted(tmp_path):
    model, ids = mamba2(), tokens(1, 9)
    model.save_pretrained(tmp_path / "mamba2")
    ours = chimera.convert_mamba2(tmp_path / "mamba2")
    ours.save_pretrained(tmp_path / "chimera")
    back = chimera.export_mamba2(str(tmp_path / "chimera"))
    torch.testing.assert_close(back.eval()(ids).logits, model(ids).logits, atol=1e-4, rtol=1e-4)


def test_folders_of_other_models_are_refused(tmp_path):
    mamba2().save_pretrained(tmp_path / "mamba2")
    small().save_pretrained(tmp_path / "chimera")
    with pytest.raises(ValueError, match="folder of a Mamba2ForCausalLM, found model_type 'chimera_causal' in the"):
        chimera.convert_mamba2(tmp_path / "chimera")
    with pytest.raises(ValueError, match="folder of a ChimeraForCausalLM, found model_type 'mamba2' in the"):
        chimera.export_mamba2(tmp_path / "mamba2")


def test_precision_mode_and_generation_settings_are_kept():
    model = mamba2().bfloat16().train()
    model.generation_config.temperature = 0.7
    ours = chimera.convert_mamba2(model)
    assert (ours.dtype, ours.training, ours.generation_config.temperature) == (torch.bfloat16, True, 0.7)
    ids = tokens(2, 9)
    exact = mamba2()(ids).logits
    assert (ours.eval()(ids).logits - exact).abs().max() < 2 * (model.eval()(ids).logits - exact).abs().max()


def test_decays_stay_exempt_from_weight_decay():
    ours = chimera.convert_mamba2(mamba2())
    mixer = ours.chimera.layers[0].mixer
    assert mixer.decay_bias._no_weight_decay
    assert mixer.step_bias._no_weight_decay


def test_fixed_decays_become_learned_ones():
    config = chimera.ChimeraCausalConfig(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, learn_decay=False)
    torch.manual_seed(0)
    model, ids = chimera.ChimeraForCausalLM(config).eval(), tokens(2, 9)
    back = chimera.export_mamba2(model)
    assert not back.backbone.layers[1].mixer.A_log.any()
    torch.testing.assert_close(back(ids).logits, model(ids).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.convert_mamba2(mamba2(hidden_act="gelu")), "must be silu, found hidden_act='gelu'"),
        (
            lambda: chimera.convert_mamba2(mamba2().backbone),
            "expected a Mamba2ForCausalLM or its folder, found Mamba2M",
        ),
        (lambda: chimera.export_mamba2(mamba2()), "expected a ChimeraForCausalLM or its folder, found Mamba2ForCausal"),
        *(
            (lambda change=change: chimera.export_mamba2(small(**change)), message)
            for change, message in [
                ({"injection": "hold"}, "Mamba-2 has injection='step', found injection='hold'"),
                ({"conv": False}, "Mamba-2 has conv=True, found conv=False"),
                ({"resolvent": "identity"}, "found resolvent='identity'"),
                ({"embedding_norm": True}, "Mamba-2 has embedding_norm=False, found embedding_norm=True"),
            ]
        ),
    ],
)
def test_what_cannot_be_converted(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def small(**settings):
    config = chimera.ChimeraCausalConfig(vocab_size=WORDS, hidden_size=8, num_hidden_layers=1, **settings)
    return chimera.ChimeraForCausalLM(config)
