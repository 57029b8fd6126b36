"""Causal language models: chunks, padding, generation, and what `transformers` expects of a model."""

import copy

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    BertTokenizer,
    DynamicCache,
    GenerationConfig,
    Trainer,
    TrainingArguments,
    pipeline,
)

import chimera_ssm as chimera
from chimera_ssm import ChimeraCache, ChimeraCausalConfig, ChimeraCausalModel, ChimeraForCausalLM

WORDS = 60
SIZES = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "state_size": 8, "groups": 2}
KINDS = {
    "mamba-2": {},
    "hold": {"injection": "hold", "learn_decay": False, "embedding_norm": True, "conv_width": 3},
    "biases": {"use_bias": True, "injection": "projected"},
}
OF_KINDS = pytest.mark.parametrize("kind", KINDS)
GENERATE = {"max_new_tokens": 12, "pad_token_id": 0, "eos_token_id": None}


def build(kind="mamba-2", cls=ChimeraForCausalLM, **overrides):
    torch.manual_seed(0)
    model = cls(ChimeraCausalConfig(**{**SIZES, **KINDS[kind], **overrides}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def tokens(*shape, seed=1):
    return torch.randint(1, WORDS, shape, generator=torch.Generator().manual_seed(seed))


def padded(side, lengths=(9, 4, 1)):
    ids, mask = tokens(len(lengths), max(lengths), seed=9), torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        mask[row, max(lengths) - length :] = 1
    return (ids, mask) if side == "left" else (ids.flip(1), mask.flip(1))


@OF_KINDS
@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_text_in_chunks_is_the_text(kind, size):
    model, ids = build(kind), tokens(2, 70)
    cache, logits = ChimeraCache(), []
    for start in range(0, 70, size):
        out = model(ids[:, start : start + size], past_key_values=cache)
        assert out.past_key_values is cache
        logits.append(out.logits)
    torch.testing.assert_close(torch.cat(logits, dim=1), model(ids).logits, atol=1e-5, rtol=1e-5)
    assert cache.get_seq_length() == 70


def test_gradients_flow_through_the_cache():
    model, ids, cache = build().double(), tokens(2, 12), ChimeraCache()
    whole = model(ids).logits[:, 5:].square().sum()
    expected = torch.autograd.grad(whole, list(model.parameters()))
    model(ids[:, :5], past_key_values=cache)
    found = torch.autograd.grad(
        model(ids[:, 5:], past_key_values=cache).logits.square().sum(), list(model.parameters())
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@OF_KINDS
@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_texts_are_as_if_alone(kind, side, use_cache):
    model, (ids, mask) = build(kind), padded(side)
    found, further = model(ids, attention_mask=mask, use_cache=use_cache, output_hidden_states=True), tokens(3, 2)
    if use_cache:
        continued = model(further, past_key_values=found.past_key_values, attention_mask=torch.ones(3, 2))
    for row, here in enumerate(mask.bool()):
        text = torch.cat([ids[row, here], further[row]])[None]
        alone = model(text, output_hidden_states=True)
        torch.testing.assert_close(found.logits[row, here], alone.logits[0, :-2], atol=1e-5, rtol=1e-5)
        for state, expected in zip(found.hidden_states, alone.hidden_states, strict=True):
            torch.testing.assert_close(state[row, here], expected[0, :-2], atol=1e-5, rtol=1e-5)
        if use_cache:
            torch.testing.assert_close(continued.logits[row], alone.logits[0, -2:], atol=1e-5, rtol=1e-5)


def test_padding_inside_of_a_text_is_skipped():
    model, ids = build(), tokens(1, 8)
    mask = torch.tensor([[1, 1, 0, 0, 1, 1, 0, 1]])
    expected = model(ids[mask.bool()][None]).logits
    for use_cache in (False, True):
        found = model(ids, attention_mask=mask, use_cache=use_cache).logits[mask.bool()]
        torch.testing.assert_close(found[None], expected, atol=1e-5, rtol=1e-5)


def test_packed_texts_do_not_mix():
    model, ids = build(), tokens(1, 12)
    found = model(ids, seq_idx=torch.tensor([[0] * 5 + [1] * 7])).logits
    alone = torch.cat([model(ids[:, :5]).logits, model(ids[:, 5:]).logits], dim=1)
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-5)


# Generation

MODES = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 5},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
    "sampled beams": {"do_sample": True, "num_beams": 2},
}


def generate(model, ids, mask=None, **options):
    torch.manual_seed(2)
    mask = torch.ones_like(ids) if mask is None else mask
    return model.generate(ids, attention_mask=mask, **{**GENERATE, **options})


@OF_KINDS
@pytest.mark.parametrize("mode", MODES)
def test_generation_with_a_cache_is_generation_without(kind, mode):
    model, (ids, mask) = build(kind), padded("left")
    found = generate(model, ids, mask, **MODES[mode])
    assert found.shape[1] == 9 + 12
    assert torch.equal(found, generate(model, ids, mask, use_cache=False, **MODES[mode]))


@pytest.mark.parametrize("mode", ["greedy", "beams"])
def test_padded_prompts_are_continued_as_if_alone(mode):
    model, (ids, mask) = build(), padded("left")
    found = generate(model, ids, mask, **MODES[mode])
    per_text = len(found) // len(ids)
    for row, here in enumerate(mask.bool()):
        alone = generate(model, ids[row, here][None], **MODES[mode])
        assert torch.equal(found[row * per_text : (row + 1) * per_text, -12:], alone[:, -12:])


def test_generation_goes_on_from_a_cache():
    model, ids = build(), tokens(2, 6)
    whole = generate(model, ids)
    first = generate(model, ids, max_new_tokens=5, return_dict_in_generate=True)
    assert first.past_key_values.get_seq_length() == 10
    kept = copy.deepcopy(first.past_key_values)
    for cache in (first.past_key_values, kept):
        assert torch.equal(generate(model, first.sequences, max_new_tokens=7, past_key_values=cache), whole)


def test_copies_of_a_cache_have_gradients():
    """Two continuations of one text, from the cache and from its copy."""
    model, ids = build().double(), tokens(2, 9)
    cache = model(ids[:, :5]).past_key_values
    kept = copy.deepcopy(cache)
    model(ids[:, :3], past_key_values=cache)
    found = model(ids[:, 5:], past_key_values=kept).logits
    expected = model(ids).logits[:, 5:]
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(x.square().sum(), list(model.parameters())) for x in (found, expected)]
    torch.testing.assert_close(*grads)


def test_prompts_may_be_embedded():
    model, (ids, mask) = build(), padded("left")
    embedded = model.generate(inputs_embeds=model.get_input_embeddings()(ids), attention_mask=mask, **GENERATE)
    assert torch.equal(embedded, generate(model, ids, mask)[:, 9:])


def test_a_long_prompt_is_read_in_chunks():
    model, ids = build(), tokens(2, 20)
    whole = generate(model, ids)
    assert torch.equal(generate(model, ids, prefill_chunk_size=7, past_key_values=ChimeraCache()), whole)


def test_the_cache_does_not_grow():
    model = build()
    cache = model(tokens(1, 5)).past_key_values
    sizes = [x.shape for state in cache.states for x in state if x is not None]
    model(tokens(1, 50), past_key_values=cache)
    assert [x.shape for state in cache.states for x in state if x is not None] == sizes
    cache.batch_repeat_interleave(3)
    assert (cache.batch_size, len(cache), cache.get_max_length(), cache.get_mask_sizes(2)) == (3, 2, -1, (57, 0))
    cache.reset()
    assert (cache.batch_size, cache.get_seq_length(), repr(cache)) == (-1, 0, "ChimeraCache(0 tokens, 0 layers)")
    with pytest.raises(ValueError, match=r"keep a copy\.deepcopy of the cache"):
        cache.crop(-1)


def test_the_pipeline_generates(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(WORDS - 5))]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizer.from_pretrained(tmp_path, padding_side="left")
    tokenizer.save_pretrained(tmp_path)
    model = build(pad_token_id=0)
    model.save_pretrained(tmp_path)
    write = pipeline("text-generation", str(tmp_path), tokenizer=tokenizer)
    options = {"max_new_tokens": 6, "do_sample": False, "add_special_tokens": False, "return_tensors": True}
    prompts = ["w1 w2 w3 w4", "w7"]
    alone = [write(prompt, **options)[0]["generated_token_ids"] for prompt in prompts]
    together = [found[0]["generated_token_ids"] for found in write(prompts, batch_size=2, **options)]
    assert [ids[-6:] for ids in together] == [ids[-6:] for ids in alone]
    assert tokenizer.decode(alone[0]).startswith("w1 w2 w3 w4 ")


# Training, and the rest of the interface


def test_labels_are_shifted():
    model, ids = build(), tokens(2, 7)
    labels = ids.clone()
    labels[0, :3] = -100
    out = model(ids, labels=labels)
    shifted = labels[:, 1:].flatten()
    expected = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), shifted)
    torch.testing.assert_close(out.loss, expected)
    torch.testing.assert_close(model(ids, labels=labels, num_items_in_batch=22).loss, expected * 10 / 22)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_changes_nothing(use_reentrant):
    (ids, mask), grads = padded("left"), []
    for enabled in (False, True):
        model = build().train()
        if enabled:
            model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
        out = model(ids, attention_mask=mask, labels=ids)
        assert out.past_key_values is None
        out.loss.backward()
        grads.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(*grads, strict=True))


def test_auto_classes_load_what_was_saved(tmp_path):
    model, ids = build("biases", eos_token_id=3, dt_limit=(0.0, float("inf"))), tokens(2, 5)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert isinstance(loaded, ChimeraForCausalLM)
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), ChimeraCausalConfig)
    features = AutoModel.from_pretrained(tmp_path)
    assert isinstance(features, ChimeraCausalModel)
    assert torch.equal(features.eval()(ids).last_hidden_state, model.chimera(ids).last_hidden_state)
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == 3


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_are_tied_and_resized(tied):
    model = build(tie_word_embeddings=tied)
    model.resize_token_embeddings(WORDS + 5, mean_resizing=False)
    assert model(tokens(1, 3)).logits.shape == (1, 3, WORDS + 5)
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied
    assert model.config.vocab_size == WORDS + 5


def test_outputs():
    model, ids = build(), tokens(2, 5)
    assert model(ids).past_key_values.get_seq_length() == 5
    assert model(ids, use_cache=False).past_key_values is None
    assert model.train()(ids).past_key_values is None
    model.eval()
    torch.testing.assert_close(model(ids, logits_to_keep=2).logits, model(ids).logits[:, -2:])
    torch.testing.assert_close(model(ids, logits_to_keep=torch.tensor([1, 3])).logits, model(ids).logits[:, [1, 3]])
    torch.testing.assert_close(model(inputs_embeds=model.get_input_embeddings()(ids)).logits, model(ids).logits)
    assert len(model(ids, output_hidden_states=True).hidden_states) == 3
    assert model(ids, return_dict=False)[0].shape == (2, 5, WORDS)


def test_half_precision_with_a_float32_residual():
    ids, exact = tokens(2, 30), build()(tokens(2, 30)).logits
    model = build(residual_in_fp32=True).bfloat16()
    out = model(ids, output_hidden_states=True)
    assert (out.logits.dtype, out.hidden_states[-1].dtype) == (torch.bfloat16, torch.float32)
    assert (out.logits.float() - exact).abs().max() < 0.05 * exact.abs().max()
    step = model(ids[:, :1], past_key_values=out.past_key_values).logits
    assert step.dtype == torch.bfloat16


def test_the_trainer_trains_and_exempts_decays(tmp_path):
    rows = [{"input_ids": row, "labels": row} for row in tokens(8, 6)]
    arguments = TrainingArguments(tmp_path, max_steps=2, per_device_train_batch_size=4, report_to=[], use_cpu=True,
                                  gradient_accumulation_steps=2)  # fmt: skip
    trainer = Trainer(build(), arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert trainer.evaluate()["eval_loss"] > 0
    decayed = trainer.get_decay_parameter_names(trainer.model)
    assert not [name for name in decayed if "decay_bias" in name or "step_bias" in name or name.endswith(".D")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build(rms_norm_eps=0.0), "rms_norm_eps must be above 0, found 0.0"),
        (lambda: build(conv_width=0), "conv_width must be an integer of at least 1, found 0"),
        (lambda: build(dt_limit=(0.2, 0.1)), r"0 ≤ smallest < largest, found \(0.2, 0.1\)"),
        (lambda: build()(tokens(2, 5), attention_mask=torch.ones(2, 4)), r"attention_mask must have shape \[2, 5\]"),
        (lambda: build()(tokens(1, 5), attention_mask=torch.ones(2, 5)), r"attention_mask must have shape \[1, 5\]"),
        (lambda: build()(tokens(1, 5), attention_mask=torch.ones(5)), r"attention_mask must have shape \[1, 5\]"),
        (lambda: build()(tokens(1, 5), past_key_values=DynamicCache()), "must be a ChimeraCache, found DynamicCache"),
        (
            lambda: build()(tokens(1, 2), past_key_values=build()(tokens(2, 2)).past_key_values),
            "the cache has states of 2 layers and 2 texts, and the model 2 layers and 1 texts",
        ),
        (lambda: build()(tokens(1, 5), seq_idx=torch.zeros(1, 5), use_cache=True), "packed texts have no cache"),
        (lambda: build()(tokens(1, 5), position_ids=torch.arange(5)[None]), "leave position_ids out"),
        (lambda: generate(build(), tokens(1, 5), assistant_model=build()), "not supported with stateful models"),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@torch.no_grad()
def test_influence_and_shares():
    model, ids = build(), tokens(2, 6)
    rows = chimera.influence(model, 3, ids)
    assert [row.shape for row in rows] == [(2, 4, 6)] * 2
    assert all((row[..., 3] == 1).all() and not row[..., 4:].any() and row[..., :3].all() for row in rows)
    for plain, cached in zip(chimera.influence(model, 3, ids, use_cache=False), rows, strict=True):
        torch.testing.assert_close(plain, cached)
    torch.testing.assert_close(
        chimera.resolvent_share(model, ids), chimera.resolvent_share(model, ids, use_cache=False)
    )


def test_all_names_are_public():
    for name in ("ChimeraForCausalLM", "ChimeraCausalConfig", "ChimeraCausalModel", "ChimeraCache"):
        assert name in chimera.__all__


@pytest.mark.parametrize(
    ("name", "millions"), [("chimera_causal_base", 129), ("chimera_causal_tiny", 4.59), ("chimera_causal_test", 0.0283)]
)
def test_sizes_of_presets(name, millions):
    with torch.device("meta"):
        model = chimera.create_model(name)
    assert isinstance(model, ChimeraForCausalLM)
    assert model.num_parameters() / 1e6 == pytest.approx(millions, rel=0.02)


def test_the_model_compiles_as_one_graph():
    """With a cache: the states are outputs of the graph."""
    model, ids = build(), tokens(2, 9)
    compiled = torch.compile(lambda ids: model(ids, use_cache=True).logits, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids), model(ids).logits, atol=1e-5, rtol=1e-5)


def test_exported_models_take_masks():
    """One graph for texts with and without padding."""

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = build()

        def forward(self, ids, mask):
            return self.model(ids, attention_mask=mask, use_cache=False).logits

    model, (ids, mask) = Logits(), padded("left")
    exported = torch.export.export(model, (ids, mask)).module()
    for given in (mask, torch.ones_like(mask)):
        expected = model(ids, given)[given.bool()]
        torch.testing.assert_close(exported(ids, given)[given.bool()], expected, atol=1e-5, rtol=1e-5)
