"""Models under tools that replace or hook their modules: offloading, quantization, adapters, transformers' Trainer.

Quantized models are compared with BERT under the same tool, with the same width and initial deviation. Their errors are
larger, up to 3.9 times BERT's (S4 in dynamic int8); the bound of 4.5 times tells rounding from wrong arithmetic, whose
errors are of the size of the output.
"""

import copy
import warnings

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, BitsAndBytesConfig, Trainer, TrainingArguments

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
import chimera_ssm as chimera
from chimera_ssm.models import (
    ChimeraForGraphs,
    ChimeraForMaskedLM,
    ChimeraGraphConfig,
    ChimeraImageConfig,
    ChimeraImageModel,
    ChimeraTextConfig,
    ChimeraTextModel,
)

pytestmark = pytest.mark.slow


WIDTH = 64
TEXT = {"vocab_size": 100, "hidden_size": WIDTH, "num_hidden_layers": 2}


def text(**options):
    torch.manual_seed(0)
    return ChimeraTextModel(ChimeraTextConfig(**TEXT, state_size=16, **options))


def image(**options):
    torch.manual_seed(0)
    config = ChimeraImageConfig(hidden_size=WIDTH, num_hidden_layers=2, state_size=16, patch_size=4, **options)
    return ChimeraImageModel(config)


def graph(**options):
    torch.manual_seed(0)
    config = ChimeraGraphConfig(
        node_features=5, edge_features=3, num_labels=4, num_hidden_layers=2, state_size=16, **options
    )
    return ChimeraForGraphs(config)


def bert():
    torch.manual_seed(0)
    config = BertConfig(
        **TEXT, num_attention_heads=2, intermediate_size=4 * WIDTH, initializer_range=0.02 * (768 / WIDTH) ** 0.5
    )
    return BertModel(config)


def run(model):
    with torch.no_grad():
        return forward(model.eval()).last_hidden_state.float()


def forward(model):
    generator = torch.Generator().manual_seed(1)
    if model.main_input_name == "pixel_values":
        inputs = {"pixel_values": torch.randn(2, 3, 16, 20, generator=generator)}
    elif model.main_input_name == "x":
        edges = torch.randint(7, (2, 12), generator=generator)
        x, edge_attr = torch.randn(7, 5, generator=generator), torch.randn(12, 3, generator=generator)
        inputs = {"x": x, "edge_index": edges, "edge_attr": edge_attr}
    else:
        inputs = {"input_ids": torch.randint(100, (2, 19), generator=generator)}
    return model(**inputs)


def relative_error(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


OURS = {
    "text": text,
    "text, ug": lambda: text(variant="ug"),
    "text, mlp": lambda: text(mixer="mlp", max_length=32),
    "text, m2": lambda: text(mixer="m2"),
    "image": image,
    "image, s4": lambda: image(mixer="s4"),
    "image, hyena": lambda: image(mixer="hyena"),
    "graph": graph,
}
MODELS = pytest.mark.parametrize("name", OURS)


@MODELS
@pytest.mark.parametrize("to_disk", [False, True])
def test_offloaded(name, to_disk, tmp_path):
    """Weights that are fetched before each module's forward pass and dropped after it."""
    from accelerate import cpu_offload, disk_offload

    model = OURS[name]()
    expected = run(model)
    offloaded = disk_offload(model, str(tmp_path), "cpu") if to_disk else cpu_offload(model, "cpu")
    assert all(p.is_meta for p in offloaded.parameters())
    torch.testing.assert_close(run(offloaded), expected, rtol=0, atol=0)


def dynamic_error(model, skip=None):
    """The error of a dynamically quantized model whose layers called ``skip`` stay in floating point."""
    expected = run(model)
    layers = [n for n, m in model.named_modules() if type(m) is nn.Linear and n.rpartition(".")[2] != skip]
    spec = dict.fromkeys(layers, torch.ao.quantization.default_dynamic_qconfig)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), spec, torch.qint8)
    assert any(type(m).__module__.startswith("torch.ao") for m in quantized.modules())
    return relative_error(run(quantized), expected)


@MODELS
def test_dynamically_quantized(name):
    assert 0 < dynamic_error(OURS[name]()) <= 4.5 * dynamic_error(bert())


@pytest.mark.parametrize("name", ["text", "text, ug", "image", "graph"])
def test_without_out_proj_the_error_of_dynamic_quantization_is_smaller(name):
    """Docs, compile.md: relative to BERT 1.2, 1.5, 1.8 and 0.9."""
    error = dynamic_error(OURS[name](), skip="out_proj")
    assert error < 0.75 * dynamic_error(OURS[name]())
    assert error < 2 * dynamic_error(bert())


@MODELS
@pytest.mark.parametrize("bits", [8, 4])
def test_bitsandbytes(name, bits, tmp_path):
    pytest.importorskip("bitsandbytes")

    def error(model, folder):
        expected = run(model)
        model.save_pretrained(folder)
        settings = (
            BitsAndBytesConfig(load_in_8bit=True)
            if bits == 8
            else BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32, bnb_4bit_quant_type="nf4")
        )
        quantized = type(model).from_pretrained(
            folder, quantization_config=settings, device_map="cpu", dtype=torch.float32
        )
        linear = [m for m in quantized.modules() if type(m).__module__.startswith("bitsandbytes")]
        assert linear
        for module in linear:  # a packed format for some CPUs, which admits multiples of 32 features only
            module.support_avx512bf16_for_cpu = False
        return relative_error(run(quantized), expected)

    assert 0 < error(OURS[name](), tmp_path / "ours") <= 4.5 * error(bert(), tmp_path / "bert")


@pytest.mark.parametrize("name", ["text", "image", "graph"])
def test_adapters_on_norms_learn(name):
    """PEFT trains copies of the mixers' norms, which it calls in place of the originals."""
    peft = pytest.importorskip("peft")
    model = OURS[name]()
    trained = [n for n, m in model.named_modules() if n.endswith("mixer.norm")]
    settings = peft.LoraConfig(target_modules=r".*\.mixer\.(in_proj|out_proj)", modules_to_save=["mixer.norm"])
    adapted = peft.get_peft_model(copy.deepcopy(model), settings)
    with torch.enable_grad():
        loss(adapted).backward()
    gradients = {n: p.grad for n, p in adapted.named_parameters() if "mixer.norm.modules_to_save" in n}
    assert len(gradients) == 2 * len(trained)  # weight and D
    assert all(g is not None and g.abs().max() > 0 for g in gradients.values())


def loss(model):
    model.train()
    return forward(model).last_hidden_state.square().sum()


def test_trainer_does_not_decay_what_the_mixer_exempts(tmp_path):
    model = ChimeraForMaskedLM(ChimeraTextConfig(**TEXT, state_size=16))
    settings = TrainingArguments(str(tmp_path), weight_decay=0.1, use_cpu=True, report_to="none")
    groups = Trainer(model, settings).create_optimizer().param_groups
    decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    for name, parameter in model.named_parameters():
        exempt = parameter.ndim == 1 or getattr(parameter, "_no_weight_decay", False)
        assert exempt == (id(parameter) not in decayed), name


@pytest.mark.parametrize("packed", [False, True])
def test_hidden_states_are_on_the_path_of_the_gradient(packed):
    seq_idx = torch.tensor([[0] * 8 + [1] * 11] * 2) if packed else None
    output = text()(torch.arange(38).view(2, 19), seq_idx=seq_idx, output_hidden_states=True)
    gradients = torch.autograd.grad(output.last_hidden_state.square().sum(), output.hidden_states)
    assert all(g.abs().max() > 0 for g in gradients)


# What transformers' common tests check of every model, for text, causal text and images


def text_inputs(rows=3, length=7):
    return {"input_ids": torch.randint(5, 200, (rows, length), generator=torch.Generator().manual_seed(0))}


def image_inputs(rows=3):
    return {"pixel_values": torch.randn(rows, 3, 8, 12, generator=torch.Generator().manual_seed(0))}


COMMON = {
    "text": lambda: (chimera.create_model("chimera_text_test"), text_inputs()),
    "text, undirected": lambda: (chimera.create_model("chimera_text_test", variant="ug"), text_inputs()),
    "text, causal": lambda: (chimera.create_model("chimera_causal_test"), text_inputs()),
    "image": lambda: (chimera.create_model("chimera_image_test", patch_size=4), image_inputs()),
}


@pytest.fixture(params=COMMON)
def common(request):
    torch.manual_seed(0)
    return COMMON[request.param]()


def labels_of(model, inputs):
    if "input_ids" in inputs:
        return inputs["input_ids"]
    return torch.zeros(len(inputs["pixel_values"]), dtype=torch.long)


def test_tuples_and_dictionaries_are_equal(common):
    model, inputs = common
    model.eval()
    whole = model(**inputs, output_hidden_states=True, return_dict=True)
    parts = model(**inputs, output_hidden_states=True, return_dict=False)
    assert torch.equal(whole.logits, parts[0])
    assert len(whole.hidden_states) == model.config.num_hidden_layers + 1
    model.config.output_hidden_states = True
    again = model(**inputs).hidden_states
    for one, other in zip(again, whole.hidden_states, strict=True):
        assert torch.equal(one, other)


def test_rows_of_a_batch_do_not_mix(common):
    model, inputs = common
    (name, rows), model = next(iter(inputs.items())), model.eval()
    together = model(**inputs).logits
    for k in range(len(rows)):
        torch.testing.assert_close(model(**{name: rows[k : k + 1]}).logits[0], together[k], atol=1e-5, rtol=1e-4)


def test_evaluation_is_repeatable(common):
    model, inputs = common
    assert torch.equal(model.eval()(**inputs).logits, model(**inputs).logits)


def test_every_parameter_is_trained(common):
    model, inputs = common
    model.train()(**inputs, labels=labels_of(model, inputs)).loss.backward()
    assert not [
        name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())
    ]


def test_recomputation_changes_no_gradient(common):
    model, inputs = common
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    gradients = []
    for recompute in (False, True):
        model.zero_grad()
        if recompute:
            model.gradient_checkpointing_enable()
        model.train()(**inputs, labels=labels_of(model, inputs)).loss.backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, grad in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], grad, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_saved_and_loaded(common, tmp_path, dtype):
    model, inputs = common
    model.eval().save_pretrained(tmp_path)
    loaded, info = type(model).from_pretrained(tmp_path, dtype=dtype, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert loaded.dtype == dtype
    if dtype == torch.float32:
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    else:
        inputs = {k: x.to(dtype) if x.is_floating_point() else x for k, x in inputs.items()}
        assert loaded(**inputs).logits.isfinite().all()


def test_the_base_model_is_in_the_model_with_a_head(common, tmp_path):
    from transformers import AutoModel

    model, inputs = common
    model.eval().save_pretrained(tmp_path)
    body = AutoModel.from_pretrained(tmp_path).eval()
    hidden = model(**inputs, output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(body(**inputs, output_hidden_states=True).hidden_states[-1], hidden)
    body.save_pretrained(tmp_path / "body")
    headed = type(model).from_pretrained(tmp_path / "body")
    torch.testing.assert_close(headed(**inputs, output_hidden_states=True).hidden_states[-1], hidden)


def test_configurations_go_through_json(common, tmp_path):
    config = common[0].config
    config.save_pretrained(tmp_path)
    again = type(config).from_pretrained(tmp_path)
    assert {**again.to_dict(), "dtype": None} == {**config.to_dict(), "dtype": None}
    assert type(config)(**config.to_dict()).to_dict() == config.to_dict()


def test_an_empty_checkpoint_leaves_no_weight_undefined(common):
    model, inputs = common
    torch.manual_seed(0)
    loaded = type(model).from_pretrained(None, config=model.config, state_dict={}).eval()
    assert loaded(**inputs).logits.isfinite().all()
    for name, parameter in model.named_parameters():
        found = loaded.get_parameter(name).std() if parameter.numel() > 1 else torch.tensor(0.0)
        expected = parameter.std() if parameter.numel() > 1 else torch.tensor(0.0)
        assert found <= 2 * expected + 1e-3, name
        assert expected <= 2 * found + 1e-3, name


def test_a_head_of_another_size_is_drawn_anew(tmp_path):
    image, text = (chimera.create_model(f"chimera_{kind}_test") for kind in ("image", "text"))
    image.save_pretrained(tmp_path / "image")
    text.save_pretrained(tmp_path / "text")
    classes = chimera.ChimeraForSequenceClassification.from_pretrained(tmp_path / "text", num_labels=5)
    classes.save_pretrained(tmp_path / "classes")
    for cls, name, inputs in (
        (type(image), "image", image_inputs()),
        (type(classes), "classes", text_inputs()),
    ):
        with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
            cls.from_pretrained(tmp_path / name, num_labels=42)
        loaded = cls.from_pretrained(tmp_path / name, num_labels=42, ignore_mismatched_sizes=True).eval()
        logits = loaded(**inputs).logits
        assert logits.shape == (3, 42)
        assert logits.isfinite().all()


def test_a_checkpoint_in_shards(common, tmp_path):
    model, inputs = common
    model.eval().save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert torch.equal(type(model).from_pretrained(tmp_path)(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize(
    ("problem", "labels"),
    [
        ("regression", torch.rand(3, 1)),
        ("single_label_classification", torch.tensor([0, 1, 0])),
        ("multi_label_classification", torch.rand(3, 2).round()),
    ],
)
def test_losses_of_problem_types(problem, labels):
    num_labels = 1 if problem == "regression" else 2
    image = chimera.create_model("chimera_image_test", num_labels=num_labels)
    config = chimera.ChimeraTextConfig(**TEXT, num_labels=num_labels)
    for model, inputs in (
        (image, image_inputs()),
        (chimera.ChimeraForSequenceClassification(config), {"input_ids": text_inputs()["input_ids"] % 100}),
    ):
        model.config.problem_type = problem
        model(**inputs, labels=labels).loss.backward()


def test_input_embeddings_can_be_replaced():
    for kind in ("text", "causal"):
        model = chimera.create_model(f"chimera_{kind}_test")
        new = torch.nn.Embedding(10, model.config.hidden_size)
        model.set_input_embeddings(new)
        assert model.get_input_embeddings() is new


def test_the_vocabulary_can_grow():
    torch.manual_seed(0)
    model = chimera.create_model("chimera_text_test").eval()
    inputs, size = text_inputs(), model.config.vocab_size
    before = model(**inputs).logits
    model.resize_token_embeddings(size + 5)
    after = model(**inputs).logits
    assert after.shape[-1] == model.config.vocab_size == size + 5
    torch.testing.assert_close(after[..., :size], before)
    assert model.get_input_embeddings().num_embeddings == size + 5


def test_embedded_tokens_are_tokens():
    model = chimera.create_model("chimera_text_test").eval()
    ids = text_inputs()["input_ids"]
    torch.testing.assert_close(model(inputs_embeds=model.get_input_embeddings()(ids)).logits, model(ids).logits)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("variant", ["dag", "ug"])
def test_padding_on_either_side(side, variant):
    torch.manual_seed(0)
    model = chimera.create_model("chimera_text_test", variant=variant).eval()
    ids = text_inputs(1, 6)["input_ids"]
    pad, none = torch.zeros(1, 3, dtype=torch.long), torch.ones_like(ids)
    order = (lambda a, b: [b, a]) if side == "left" else (lambda a, b: [a, b])
    padded = model(torch.cat(order(ids, pad), 1), attention_mask=torch.cat(order(none, pad), 1)).logits
    found = padded[:, 3:] if side == "left" else padded[:, :6]
    torch.testing.assert_close(found, model(ids).logits, atol=1e-5, rtol=1e-4)
