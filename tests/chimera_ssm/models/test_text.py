"""Text models: presets, padding and packing, and what `transformers` expects of a model."""

import warnings
from inspect import signature

import pytest
import torch
import transformers
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertTokenizer,
    DataCollatorWithFlattening,
    pipeline,
)

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
import chimera_ssm as chimera
from chimera_ssm import (
    ChimeraForMaskedLM,
    ChimeraForQuestionAnswering,
    ChimeraForSequenceClassification,
    ChimeraForTokenClassification,
    ChimeraTextConfig,
    ChimeraTextModel,
)
from chimera_ssm.models.text.presets import PRESETS
from chimera_ssm.nn import window_conv
from chimera_ssm.nn.window_gather import window_table

MILLION = 10**6
HEADS = {
    ChimeraForMaskedLM: AutoModelForMaskedLM,
    ChimeraForSequenceClassification: AutoModelForSequenceClassification,
    ChimeraForTokenClassification: AutoModelForTokenClassification,
    ChimeraForQuestionAnswering: AutoModelForQuestionAnswering,
}
VARIANTS = pytest.mark.parametrize("variant", ["dag", "ug"])
LENGTHS = 11, 4, 1, 8


def build(variant="dag", head=ChimeraForMaskedLM, **overrides):
    torch.manual_seed(0)
    return head(ChimeraTextConfig(**{**PRESETS["chimera_text_test"], "variant": variant, **overrides}))


def tokens(*shape, seed=1):
    return torch.randint(5, 200, shape, generator=torch.Generator().manual_seed(seed))


def texts(seed=1):
    return [tokens(length, seed=seed + length) for length in LENGTHS]


def padded(side):
    """Texts with noise as padding, and their mask."""
    ids, mask = tokens(len(LENGTHS), max(LENGTHS), seed=9), torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.long)
    for row, text in enumerate(texts()):
        place = slice(-len(text), None) if side == "left" else slice(0, len(text))
        ids[row, place], mask[row, place] = text, 1
    return ids, mask


@pytest.mark.parametrize(
    ("name", "millions", "tolerance"),
    [
        ("chimera_text_base", 110, 0.02),
        ("chimera_text_small", 29.8, 0.01),
        ("chimera_text_tiny", 4.79, 0.01),
        ("chimera_text_test", 0.0327, 0.01),
        # the paper's three of 70 million
        ("chimera_text_70m_12l", 70, 0.05),
        ("chimera_text_70m_6l", 70, 0.05),
        ("bert_70m_6l", 70, 0.05),
    ],
)
def test_sizes_of_presets(name, millions, tolerance):
    with torch.device("meta"):
        model = chimera.create_model(name)
    assert model.device.type == "meta"
    assert abs(model.num_parameters() / (millions * MILLION) - 1) < tolerance


def test_the_undirected_line_has_the_papers_size_too():
    with torch.device("meta"):
        model = chimera.create_model("chimera_text_base", variant="ug")
    assert abs(model.num_parameters() / (110 * MILLION) - 1) < 0.02


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.create_model("chimera_text_bse"), "no model is called .* did you mean 'chimera_text_base'"),
        (lambda: chimera.create_model("chimera_text_test", hiden_size=8), "did you mean 'hidden_size'"),
        (lambda: build("both"), "variant must be one of dag, ug; found 'both'"),
        (lambda: build(vocab_size=0), "vocab_size must be an integer of at least 1, found 0"),
        (lambda: build(classifier_dropout=1.0), "classifier_dropout must be from 0 to below 1, found 1.0"),
        (lambda: build()(tokens(5)), r"input_ids must have shape \[batch, tokens\], found \[5\]"),
        (lambda: build()(), "either input_ids or inputs_embeds, found both or neither"),
        (lambda: build()(tokens(1, 5), inputs_embeds=torch.zeros(1, 5, 32)), "either input_ids or inputs_embeds"),
        (lambda: build()(inputs_embeds=torch.zeros(1, 5, 3)), r"\[batch, tokens, 32\], found \[1, 5, 3\]"),
        (lambda: build()(tokens(2, 5), attention_mask=torch.ones(2, 4)), r"attention_mask must have shape \[2, 5\]"),
        (lambda: build()(tokens(2, 5), seq_idx=torch.ones(5)), r"seq_idx must have shape \[2, 5\], found \[5\]"),
        (lambda: build()(tokens(0, 5)), r"a batch must have a text, and a text a token, found \[0, 5\]"),
        (lambda: build("ug")(tokens(2, 0)), r"and a text a token, found \[2, 0\] for \[batch, tokens\]"),
        (lambda: build()(inputs_embeds=torch.zeros(0, 5, 32)), r"found \[0, 5\] .* leave out empty texts"),
        (lambda: build()(torch.tensor([[7, 200]])), "below vocab_size 200, found 7 to 200: use the tokenizer"),
        (lambda: build()(torch.tensor([[-1, 7]])), "found -1 to 7"),
        (lambda: build()(tokens(1, 5), position_ids=torch.arange(5)), "leave position_ids out; .* seq_idx"),
        (
            lambda: build(head=ChimeraForSequenceClassification)(tokens(1, 5), seq_idx=torch.ones(1, 5)),
            "needs one text per row: pad the batch",
        ),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Padding and packing


@VARIANTS
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_texts_are_as_if_alone(variant, side):
    model = build(variant).eval()
    ids, mask = padded(side)
    found = model(ids, attention_mask=mask, output_hidden_states=True)
    for row, text in enumerate(texts()):
        alone = model(text[None], output_hidden_states=True)
        here = mask[row].bool()
        torch.testing.assert_close(found.logits[row, here], alone.logits[0], atol=1e-5, rtol=0)
        for padded_state, state in zip(found.hidden_states, alone.hidden_states, strict=True):
            torch.testing.assert_close(padded_state[row, here], state[0], atol=1e-5, rtol=0)


@VARIANTS
@pytest.mark.parametrize("side", ["left", "right"])
def test_classes_of_padded_texts_are_as_if_alone(variant, side):
    model = build(variant, ChimeraForSequenceClassification, num_labels=3).eval()
    ids, mask = padded(side)
    alone = torch.cat([model(text[None]).logits for text in texts()])
    torch.testing.assert_close(model(ids, attention_mask=mask).logits, alone, atol=1e-5, rtol=0)


@VARIANTS
def test_gradients_of_padded_texts_are_as_if_alone(variant):
    model = build(variant).double()
    ids, mask = padded("left")
    weights = [torch.randn(len(text), 200, dtype=torch.double) for text in texts()]
    logits = model(ids, attention_mask=mask).logits
    sum((logits[r, mask[r].bool()] * w).sum() for r, w in enumerate(weights)).backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    sum((model(text[None]).logits[0] * w).sum() for text, w in zip(texts(), weights, strict=True)).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, msg=name)


@VARIANTS
def test_packed_texts_do_not_hear_each_other(variant):
    model = build(variant).eval()
    collate = DataCollatorWithFlattening(return_seq_idx=True, return_position_ids=False)
    batch = collate([{"input_ids": text.tolist()} for text in texts()])
    assert batch["input_ids"].shape == (1, sum(LENGTHS))
    found = model(batch["input_ids"], seq_idx=batch["seq_idx"]).logits
    alone = torch.cat([model(text[None]).logits for text in texts()], dim=1)
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)


@VARIANTS
def test_packed_rows_with_padding(variant):
    """Two rows, of 11 and of 4 + 1 + 3 padded + … tokens: cuts differ from row to row."""
    model = build(variant).eval()
    long, four, one, _ = texts()
    ids = torch.stack([long, torch.cat([four, one, tokens(6)])])
    seq_idx = torch.tensor([[0] * 11, [0] * 4 + [1] + [2] * 6])
    mask = torch.tensor([[1] * 11, [1] * 5 + [0] * 6])
    outputs = model(ids, attention_mask=mask, seq_idx=seq_idx, output_hidden_states=True)
    assert outputs.hidden_states[1].shape == (2, 11, 32)
    for found, text in ((outputs.logits[0], long), (outputs.logits[1, :4], four), (outputs.logits[1, 4:5], one)):
        torch.testing.assert_close(found, model(text[None]).logits[0], atol=1e-5, rtol=0)


# What it is


def test_the_model_is_what_it_says():
    model = build().eval()
    ids = tokens(2, 9)
    x = model.chimera.embedding_norm(model.chimera.embeddings.weight[ids])
    for layer in model.chimera.layers:
        x = x + layer.mixer(layer.norm(x), chimera.UndirectedLine(9))
    x = model.cls.norm(nn.functional.gelu(model.cls.dense(model.chimera.norm(x))))
    expected = x @ model.chimera.embeddings.weight.T + model.cls.decoder.bias
    torch.testing.assert_close(model(ids).logits, expected)
    assert type(model.chimera.layers[0].mixer.kind).__name__ == "OnTwoLines"
    assert type(build("ug").chimera.layers[0].mixer.kind).__name__ == "OnUndirectedLine"


@VARIANTS
def test_any_length(variant):
    model = build(variant).eval()
    for length in (1, 2, 3, 1000):
        assert model(tokens(1, length)).logits.isfinite().all()


def test_embedded_tokens_and_others_that_tokenizers_give():
    model, ids = build().eval(), tokens(2, 7)
    expected = model(ids).logits
    assert torch.equal(model(inputs_embeds=model.get_input_embeddings()(ids)).logits, expected)
    assert torch.equal(model(ids, token_type_ids=torch.ones_like(ids)).logits, expected)


@pytest.mark.parametrize("head", [ChimeraTextModel, *HEADS], ids=lambda head: head.__name__)
def test_arguments_stand_in_the_order_of_transformers(head):
    bert = getattr(transformers, head.__name__.replace("Text", "").replace("Chimera", "Bert"))
    ours, theirs = (list(signature(model.forward).parameters) for model in (head, bert))
    assert [name for name in ours if name in theirs] == [name for name in theirs if name in ours]
    model, (ids, mask) = build(head=head).eval(), padded("right")
    named = model(input_ids=ids, attention_mask=mask)
    assert all(torch.equal(*pair) for pair in zip(model(ids, mask).to_tuple(), named.to_tuple(), strict=True))


def test_topologies_are_planned_once(monkeypatch):
    calls = []

    def counted(*args):
        calls.append(args)
        return window_table(*args)

    monkeypatch.setattr(window_conv, "window_table", counted)
    model = build()
    for _ in range(3):
        model(tokens(1, 6))
    assert len(calls) == 1


# transformers


@VARIANTS
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.__name__)
def test_round_trip_is_bitwise(variant, head, tmp_path):
    model, ids = build(variant, head, num_labels=3).eval(), tokens(2, 7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    twin, info = HEADS[head].from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert isinstance(twin, head)
    saved, loaded = model.state_dict(), twin.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    assert twin.config.variant == variant
    assert not twin.training
    torch.testing.assert_close(twin(ids)[0], model(ids)[0])
    body = AutoModel.from_pretrained(tmp_path)
    assert isinstance(body, ChimeraTextModel)
    torch.testing.assert_close(body(ids).last_hidden_state, model.chimera(ids).last_hidden_state)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), ChimeraTextConfig)


def test_a_pretrained_body_gets_a_new_head(tmp_path):
    model = build()
    model.save_pretrained(tmp_path)
    twin = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=5)
    assert twin.classifier.weight.shape == (5, 32)
    assert 0 < twin.classifier.weight.abs().max() < 5 * 0.02 * (768 / 32) ** 0.5
    for name, value in model.chimera.state_dict().items():
        assert torch.equal(value, twin.chimera.state_dict()[name]), name


def test_words_are_predicted_with_the_weights_that_embed_them(tmp_path):
    model = build()
    assert model.cls.decoder.weight is model.chimera.embeddings.weight
    model.save_pretrained(tmp_path)
    twin = ChimeraForMaskedLM.from_pretrained(tmp_path)
    assert twin.cls.decoder.weight is twin.chimera.embeddings.weight
    twin.resize_token_embeddings(210)
    assert twin.cls.decoder.weight is twin.chimera.embeddings.weight
    assert twin(tokens(1, 4)).logits.shape == (1, 4, 210)
    apart = build(tie_word_embeddings=False)
    assert apart.cls.decoder.weight is not apart.chimera.embeddings.weight


def test_initial_weights():
    model, std = build(hidden_size=128), 0.02 * (768 / 128) ** 0.5
    for name, parameter in model.named_parameters():
        if name.endswith(("proj.weight", "embeddings.weight", "dense.weight")):
            assert 0.9 * std < parameter.std() < 1.1 * std, name
        if name.endswith(("decoder.bias", "dense.bias")):
            assert (parameter == 0).all(), name
        if name.endswith(("norm.weight", ".D")):
            assert (parameter == 1).all(), name


def test_marks_for_weight_decay_also_after_loading(tmp_path):
    model = build()
    model.save_pretrained(tmp_path)
    for twin in (model, ChimeraForMaskedLM.from_pretrained(tmp_path)):
        marked = {n.split(".")[-1] for n, p in twin.named_parameters() if getattr(p, "_no_weight_decay", False)}
        assert marked == {"step_bias", "D"}


@VARIANTS
def test_gradient_checkpointing_changes_nothing(variant):
    model, ids = build(variant, drop_path=0.3).train(), tokens(3, 7)
    ids_mask = torch.tensor([[1] * 7, [1] * 3 + [0] * 4, [0] * 2 + [1] * 5])

    def gradients():
        model.zero_grad()
        torch.manual_seed(3)
        model(ids, attention_mask=ids_mask, labels=ids).loss.backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    plain = gradients()
    model.gradient_checkpointing_enable()
    calls = []
    model.chimera.layers[1].mixer.register_forward_hook(lambda *_: calls.append(1))
    again = gradients()
    assert len(calls) == 2
    assert all(torch.equal(plain[name], again[name]) for name in plain)


def test_losses():
    ids, cross_entropy = tokens(4, 6), nn.functional.cross_entropy
    labels = torch.where(torch.rand(4, 6) < 0.4, ids, -100)
    labels[0, 0] = 7
    outputs = build().eval()(ids, labels=labels)
    asked = labels != -100
    torch.testing.assert_close(outputs.loss, cross_entropy(outputs.logits[asked], labels[asked]))

    model = build(head=ChimeraForTokenClassification, num_labels=200).eval()
    outputs = model(ids, labels=labels)
    torch.testing.assert_close(outputs.loss, cross_entropy(outputs.logits[asked], labels[asked]))

    start, end = torch.tensor([0, 1, 2, 3]), torch.tensor([5, 4, 3, 3])
    outputs = build(head=ChimeraForQuestionAnswering).eval()(ids, start_positions=start, end_positions=end)
    both = cross_entropy(outputs.start_logits, start) + cross_entropy(outputs.end_logits, end)
    torch.testing.assert_close(outputs.loss, both / 2)


@pytest.mark.parametrize(
    ("problem", "num_labels", "labels", "loss"),
    [
        ("single_label_classification", 3, torch.tensor([0, 2, 1, 1]), nn.functional.cross_entropy),
        ("multi_label_classification", 3, torch.rand(4, 3).round(), nn.functional.binary_cross_entropy_with_logits),
        ("regression", 1, torch.rand(4, 1), nn.functional.mse_loss),
    ],
)
def test_losses_of_classes_follow_the_problem_type(problem, num_labels, labels, loss):
    model = build(head=ChimeraForSequenceClassification, num_labels=num_labels, problem_type=problem).eval()
    outputs = model(tokens(4, 6), labels=labels)
    torch.testing.assert_close(outputs.loss, loss(outputs.logits, labels))


def test_outputs_as_tuples():
    model, ids = build().eval(), tokens(2, 5)
    outputs = model(ids, labels=ids, output_hidden_states=True)
    loss, logits, hidden_states = model(ids, labels=ids, output_hidden_states=True, return_dict=False)
    assert torch.equal(loss, outputs.loss)
    assert torch.equal(logits, outputs.logits)
    assert [state.shape for state in hidden_states] == [(2, 5, 32)] * 4
    assert model(ids).hidden_states is None
    body = model.chimera(ids)
    assert torch.equal(model.chimera.norm(hidden_states[-1]), body.last_hidden_state)
    assert torch.equal(body.last_hidden_state.mean(dim=1), body.pooler_output)


@VARIANTS
def test_bfloat16(variant):
    model, ids = build(variant), tokens(4, 9)
    reference = model(ids).logits
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(ids, labels=ids)
    assert (outputs.logits - reference).norm() < 0.05 * reference.norm()
    outputs.loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.fixture
def tokenizer(tmp_path):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat dog sat on mat a . how nice"
    (tmp_path / "vocab.txt").write_text(words.replace(" ", "\n") + "\n")
    names = ["input_ids", "attention_mask"]
    return BertTokenizer.from_pretrained(tmp_path, model_input_names=names)


def test_fill_mask_offline(tokenizer, tmp_path):
    model = build(vocab_size=len(tokenizer)).eval()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    fill = pipeline("fill-mask", str(tmp_path / "model"))
    texts = ["the [MASK] sat on the mat .", "how [MASK]"]
    for found, text in zip(fill(texts, batch_size=2, top_k=15), texts, strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        expected = model(ids).logits[0, ids[0] == tokenizer.mask_token_id].softmax(-1)[0]
        scores = torch.tensor([next(f["score"] for f in found if f["token"] == n) for n in range(15)])
        torch.testing.assert_close(scores, expected)


def test_text_classification_offline(tokenizer, tmp_path):
    model = build(head=ChimeraForSequenceClassification, vocab_size=len(tokenizer), id2label={0: "bad", 1: "good"})
    model.eval().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    classify = pipeline("text-classification", str(tmp_path / "model"))
    texts = ["the cat sat on the mat .", "how nice"]
    for found, text in zip(classify(texts, batch_size=2, top_k=2), texts, strict=True):
        expected = model(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0]
        scores = {f["label"]: f["score"] for f in found}
        torch.testing.assert_close(torch.tensor([scores["bad"], scores["good"]]), expected)


@pytest.mark.slow
@VARIANTS
def test_it_learns(variant):
    """The masked word is the one that stands three places before or after it: order and distance matter."""
    model, ids = build(variant, vocab_size=12, num_hidden_layers=2), 5 + tokens(64, 9) % 6
    ids[:, 1], labels = ids[:, 4], torch.full_like(ids, -100)
    labels[:, 4] = ids[:, 4]
    masked = ids.clone()
    masked[:, 4] = 4
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = model(masked, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(masked).logits[:, 4].argmax(-1) == ids[:, 4]).float().mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ChimeraForSequenceClassification, ChimeraForTokenClassification])
def test_accumulated_gradients_of_trainer_are_those_of_the_whole_batch(kind, tmp_path):
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    ids, labels = torch.randint(5, 90, (8, 6)), torch.randint(3, (8, 6))
    labels = labels if kind is ChimeraForTokenClassification else labels[:, 0]
    data = [{"input_ids": i, "labels": y} for i, y in zip(ids, labels, strict=True)]
    config = chimera.create_model("chimera_text_test", num_labels=3).config
    weights = []
    for pieces in (1, 4):
        torch.manual_seed(1)
        model = kind(config)
        how = TrainingArguments(
            str(tmp_path), per_device_train_batch_size=8 // pieces, gradient_accumulation_steps=pieces, max_steps=1,
            learning_rate=1.0, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0, report_to=[], use_cpu=True,
            disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        Trainer(model, how, train_dataset=data).train()
        weights.append({name: value.detach() for name, value in model.named_parameters()})
    for name, whole in weights[0].items():
        torch.testing.assert_close(weights[1][name], whole, rtol=1e-4, atol=1e-5, msg=name)


def test_models_saved_with_D_in_the_mixer_still_load(tmp_path):
    from safetensors.torch import load_file, save_file

    model = build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    state = {name.replace("mixer.norm.D", "mixer.D"): value for name, value in load_file(file).items()}
    assert any(name.endswith("mixer.D") for name in state)
    save_file(state, file, {"format": "pt"})
    for _ in range(2):
        loaded = ChimeraForMaskedLM.from_pretrained(tmp_path)
        for name, value in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value), name
        loaded.save_pretrained(tmp_path)


def test_a_misspelled_setting_is_named():
    with pytest.warns(UserWarning, match="has no setting 'hiden_size', did you mean 'hidden_size'\\? It has no effect"):
        ChimeraTextConfig(hiden_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ChimeraTextConfig(num_labels=3, torch_dtype="float32", my_note="size 32", name_or_path="here")
        assert ChimeraTextConfig.from_dict(again.to_dict()).my_note == "size 32"
