"""Accelerated models of all families compute what `transformers` computes: logits, gradients, text, packed batches."""

import copy
import io

import pytest
import torch
from torch import nn

import chimera_ssm as chimera
from tests.chimera_ssm.mamba.tiny import MODELS, model_of, tokens

pytestmark = pytest.mark.filterwarnings("ignore")
FAMILIES = pytest.mark.parametrize("family", MODELS)


def both(family):
    """The model of `transformers`, and an accelerated copy."""
    model, fast = model_of(family), model_of(family)
    chimera.accelerate(fast)
    return model, fast


def padded(ids, side):
    """The second row is shorter than the first."""
    mask = torch.ones_like(ids)
    places = slice(0, 9) if side == "left" else slice(-9, None)
    ids, mask[1, places] = ids.clone(), 0
    ids[1, places] = 0
    return {"input_ids": ids, "attention_mask": mask}


def cache_of(output):
    """A cache, under either of its names."""
    name = "cache_params" if "cache_params" in output else "past_key_values"
    return {name: output[name], "use_cache": True}


@torch.no_grad()
@FAMILIES
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_logits(family, side):
    model, fast = both(family)
    given = {"input_ids": tokens()} if side is None else padded(tokens(), side)
    real = given.get("attention_mask", torch.ones(2, 37)).bool()
    for use_cache in (False, True):
        found, expected = (m(**given, use_cache=use_cache).logits for m in (fast, model))
        torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-4)


@torch.no_grad()
@FAMILIES
def test_logits_with_a_cache(family):
    """A prompt, the same one step after the other, and a prompt shorter than the convolution."""
    model, fast = both(family)
    ids = tokens(length=24)
    for prompt in (2, 20):
        outputs = [m(ids[:, :prompt], use_cache=True) for m in (fast, model)]
        for t in range(prompt, 24):
            found, expected = outputs = [
                m(ids[:, t : t + 1], **cache_of(output)) for m, output in zip((fast, model), outputs, strict=True)
            ]
            torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-4)


@FAMILIES
def test_greedy_generation_is_identical(family):
    model, fast = both(family)
    options = {"max_new_tokens": 64, "do_sample": False}
    given = padded(tokens(length=12), "left")
    assert torch.equal(fast.generate(**given, **options), model.generate(**given, **options))


@FAMILIES
@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients(family, checkpointing):
    model, fast = both(family)
    given = padded(tokens(), "right")
    losses = []
    for m in (fast, model):
        m.train()
        if checkpointing:
            m.gradient_checkpointing_enable()
        losses.append(m(**given, labels=given["input_ids"]).loss)
        losses[-1].backward()
    torch.testing.assert_close(*losses, rtol=0, atol=1e-4)
    for (name, x), y in zip(fast.named_parameters(), model.parameters(), strict=True):
        assert (x.grad is None) == (y.grad is None), name
        if x.grad is not None:
            torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4, msg=name)


@torch.no_grad()
@FAMILIES
def test_bfloat16_is_as_accurate_as_before(family):
    """Both differ from float32 by what the precision allows."""
    exact = model_of(family)(tokens()).logits
    model, fast = (m.bfloat16() for m in both(family))
    error = (model(tokens()).logits.float() - exact).abs().max()
    assert (fast(tokens()).logits.float() - exact).abs().max() < 1.5 * error + 2e-3


@FAMILIES
@pytest.mark.parametrize("training", [False, True])
def test_packed_sequences_are_kept_apart(family, training):
    _, fast = both(family)
    fast.train(training)
    ids = tokens(rows=1)
    sizes = torch.tensor([17, 3, 17])
    seq_idx = torch.arange(3, dtype=torch.int32).repeat_interleave(sizes)[None]
    given = {"position_ids": torch.cat([torch.arange(n) for n in sizes])[None]} if family != "Mamba2" else {}
    if family == "GraniteMoeHybrid":  # its model derives no mask from position_ids
        mask = (seq_idx[:, :, None] == seq_idx[:, None]).tril().unsqueeze(1)
        given = {**given, "attention_mask": {"full_attention": mask, "linear_attention": None}}
    alone = [fast(part, use_cache=False).logits for part in ids.split(sizes.tolist(), 1)]
    packed = fast(ids, seq_idx=seq_idx, use_cache=False, **given).logits
    torch.testing.assert_close(packed, torch.cat(alone, 1), rtol=0, atol=1e-5)


ROW = torch.zeros(1, 37, dtype=torch.int32)
BAD = {
    "decreasing": ({"seq_idx": ROW.index_fill(1, torch.arange(9), 1)}, "seq_idx must not decrease, found 1 before 0"),
    "short": ({"seq_idx": ROW[:, :30]}, r"seq_idx must be integers of shape \[1, 37\] = \[batch, seqlen\], found"),
    "long": ({"seq_idx": ROW.repeat(1, 2)}, r"seq_idx must be integers of shape \[1, 37\] = \[batch, seqlen\], found"),
    "flat": ({"seq_idx": ROW[0]}, r"seq_idx must be integers of shape \[1, 37\] = \[batch, seqlen\], found"),
    "list": ({"seq_idx": [[0] * 37]}, "seq_idx must be integers of shape .*, found list"),
    "bounds": ({"cu_seqlens": torch.tensor([0, 20, 10, 37])}, r"cu_seqlens must increase .* \[0, 20, 10, 37\]"),
    "long bounds": ({"cu_seqlens": torch.tensor([0, 50])}, r"cu_seqlens must end with seqlen = 37, found \[0, 50\]"),
    "list of bounds": ({"cu_seqlens": [0, 37]}, r"cu_seqlens must be integers of shape .* found \[0, 37\]"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("family", ["Mamba2", "Bamba"])
def test_wrong_divisions_are_refused(family, name):
    model, (given, message) = model_of(family), BAD[name]
    chimera.accelerate(model)
    with pytest.raises(ValueError, match=message):
        model(tokens(rows=1), use_cache=False, **given)


def test_bounds_need_a_single_row():
    model = model_of("Mamba2")
    chimera.accelerate(model)
    with pytest.raises(ValueError, match="cu_seqlens needs a batch of one row, found 2 rows: use seq_idx"):
        model(tokens(), cu_seqlens=torch.tensor([0, 37]))


@torch.no_grad()
def test_packed_sequences_in_a_wrapped_model():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model_of("Mamba2")

        def forward(self, ids, **kwargs):
            return self.model(ids, **kwargs).logits

    wrapper, ids = Wrapper(), tokens(rows=1)
    chimera.accelerate(wrapper)
    alone = torch.cat([wrapper(part) for part in ids.split([12, 25], dim=1)], dim=1)
    torch.testing.assert_close(wrapper(ids, cu_seqlens=torch.tensor([0, 12, 37])), alone, rtol=0, atol=1e-5)


def test_transformers_refuses_packed_sequences():
    with pytest.raises(ValueError, match="can't keep packed sequences apart"):
        model_of("Bamba")(tokens(rows=1), seq_idx=torch.zeros(1, 37, dtype=torch.int32))


@torch.no_grad()
def test_report_and_undo():
    model, other = model_of("Mamba2"), model_of("Mamba2")
    before = model(tokens()).logits
    report = chimera.accelerate(model)
    assert str(report).startswith("accelerated 2 × Mamba2Mixer\n  mamba2_chunk_scan → chimera_ssm.mamba_chunk_scan_")
    assert report.layers == ("backbone.layers.0.mixer", "backbone.layers.1.mixer")
    assert not torch.equal(model(tokens()).logits, before)  # equal to rounding only: other operations
    assert torch.equal(other(tokens()).logits, before)
    report.undo()
    assert torch.equal(model(tokens()).logits, before)
    assert not any("forward" in vars(m) or m._forward_pre_hooks for m in model.modules())


@torch.no_grad()
def test_copies_and_files():
    """A copy is accelerated itself; a saved model holds parameters only."""
    model = model_of("Mamba2")
    chimera.accelerate(model)
    expected = model(tokens()).logits
    twin = copy.deepcopy(model)
    model.backbone.layers[0].mixer.D.zero_()
    assert torch.equal(twin(tokens()).logits, expected)
    file = io.BytesIO()
    torch.save(twin, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(tokens()).logits, expected)


@pytest.mark.slow
@torch.no_grad()
def test_compiled_models():
    model = model_of("Mamba2")
    expected = model(tokens(), use_cache=False).logits
    chimera.accelerate(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(tokens(), use_cache=False).logits, expected, rtol=0, atol=1e-4)
    # Other shapes and arguments: layers of one class are compiled again.
    given = {"input_ids": tokens(rows=1), "seq_idx": torch.tensor([[0] * 12 + [1] * 25]), "use_cache": False}
    torch.testing.assert_close(compiled(**given).logits, model(**given).logits, rtol=0, atol=1e-4)


@torch.no_grad()
def test_hooks_of_the_package_accelerate_are_kept():
    hooks = pytest.importorskip("accelerate.hooks")
    model, calls = model_of("Mamba2"), []
    before = model(tokens()).logits
    hook = type(
        "Hook", (hooks.ModelHook,), {"pre_forward": lambda *args, **kwargs: (calls.append(1), (args[2:], kwargs))[1]}
    )
    hooks.add_hook_to_module(model.backbone.layers[0].mixer, hook())
    report = chimera.accelerate(model)
    assert not torch.equal(model(tokens()).logits, before)
    report.undo()
    assert torch.equal(model(tokens()).logits, before)
    assert len(calls) == 2


def test_a_part_of_a_model():
    model = model_of("FalconH1")
    assert chimera.accelerate(model.model.layers[1]).layers == ("mamba",)


def test_models_without_such_layers_are_refused():
    with pytest.raises(ValueError, match="Linear has no Mamba-2 layers to accelerate: expected a model of"):
        chimera.accelerate(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="accelerate takes a model of transformers, found str"):
        chimera.accelerate("mamba2")
