"""Image models: presets, sizes, topologies, and what `transformers` expects of a model."""

import pytest
import torch
from PIL import Image
from torch import nn
from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoModelForImageClassification, pipeline

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
import chimera_ssm as chimera
from chimera_ssm import ChimeraForImageClassification, ChimeraImageConfig, ChimeraImageModel, ChimeraImageProcessor
from chimera_ssm.nn import window_conv
from chimera_ssm.nn.window_gather import window_table

MILLION = 10**6
VARIANTS = {
    "2d": {},
    "2d, sqrt, none": {"normalize": "sqrt", "sharing": "none"},
    "2d, complete": {"sharing": "complete", "groups": 2},
    "2d, row": {"sharing": "row", "expand": 1},
    "fwd_rev": {"topology": "fwd_rev"},
    "undirected": {"topology": "undirected", "gamma": 0.99},
    "fwd": {"topology": "fwd"},
    "fwd_rev, window of the grid": {"topology": "fwd_rev", "conv_window": "grid"},
    "fwd, window of the grid": {"topology": "fwd", "conv_window": "grid"},
    "s4": {"mixer": "s4"},
    "hyena": {"mixer": "hyena"},
}
ALL = pytest.mark.parametrize("variant", VARIANTS)


def build(variant="2d", **overrides):
    torch.manual_seed(0)
    return chimera.create_model("chimera_image_test", **{**VARIANTS[variant], **overrides})


def images(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "target", "tolerance"),
    [
        ("chimera_image_base", 88 * MILLION, 0.03),
        ("chimera_image_small", 22 * MILLION, 0.03),
        ("chimera_image_tiny", 3.1 * MILLION, 0.02),
        ("chimera_image_test", 30_000, 0.02),
    ],
)
def test_sizes_of_presets(name, target, tolerance):
    with torch.device("meta"):
        model = chimera.create_model(name)
    assert model.device.type == "meta"
    assert abs(model.num_parameters() / target - 1) < tolerance


def test_the_defaults_are_the_base_model():
    """Twelve heads of 128, also without a number of heads: it follows from the width."""
    with torch.device("meta"):
        base, plain = chimera.create_model("chimera_image_base"), ChimeraForImageClassification(ChimeraImageConfig())
    assert {layer.mixer.num_heads for layer in plain.chimera.layers} == {12}
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "state_size",
        "patch_size",
        "image_size",
        "normalize",
        "injection",
    ):
        assert getattr(base.config, name) == getattr(plain.config, name), name
    assert base.chimera.num_parameters() == plain.chimera.num_parameters()
    small = chimera.create_model("chimera_image_small", num_hidden_layers=1).chimera.layers[0].mixer
    assert (small.num_heads, small.width // small.num_heads) == (3, 256)


@pytest.mark.parametrize("topology", ["fwd_rev", "fwd"])
def test_with_the_grid_s_window_topologies_differ_in_the_resolvent_alone(topology):
    """Without paths, a flattened image is treated as the grid is, up to the number of DAGs."""
    model = build(topology=topology, conv_window="grid", resolvent="identity").eval()
    mixer, grid = model.chimera.layers[0].mixer, chimera.Grid((3, 4))
    assert mixer.conv.weight.shape[1:] == (3, 3)
    x = images(1, 12, 32)
    changed = x.clone()
    changed[:, 5] += 1  # row 1, column 1
    seen = (mixer(x, grid) != mixer(changed, grid)).any(-1)[0].view(3, 4)
    assert seen.tolist() == [[True] * 3 + [False]] * 3


def test_the_paper_s_initial_values():
    """0.02 at every width, steps drawn independently, no constant biases."""
    torch.manual_seed(0)
    model = chimera.create_model("chimera_image_test", hidden_size=128, num_heads=32, init="paper")
    weights = torch.cat([p.flatten() for n, p in model.named_parameters() if n.endswith("proj.weight")])
    assert 0.95 * 0.02 < weights.std() < 1.05 * 0.02
    mixer = model.chimera.layers[0].mixer
    assert mixer.conv.bias[mixer.width :].std() > 0.1
    share = (nn.functional.softplus(mixer.step_bias) / 7 / 0.001).log() / torch.tensor(100.0).log()
    assert ((share > 0) & (share < 1)).all()
    assert any(len({int(s) for s in 32 * column}) < 32 for column in share.T)  # not one in each of 32 intervals


def test_presets_build_by_name_with_overrides():
    assert set(chimera.list_models()) >= {f"chimera_image_{size}" for size in ("base", "small", "tiny", "test")}
    for name in chimera.list_models():
        with torch.device("meta"):
            chimera.create_model(name)
    model = chimera.create_model("chimera_image_test", num_labels=3, drop_path=0.5, num_channels=1)
    assert model(images(2, 1, 16, 16)).logits.shape == (2, 3)
    assert [layer.drop_path.probability for layer in model.chimera.layers] == [0, 0.25, 0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.create_model("chimera_image_bas"), "no model is called .* did you mean 'chimera_image_base'"),
        (lambda: chimera.create_model("resnet"), "no model is called 'resnet'; there are: .*chimera_image_base"),
        (lambda: build(hiden_size=8), "no setting of chimera_image_test .* did you mean 'hidden_size'"),
        (lambda: build(gamma=1.0), "gamma must satisfy"),
        (lambda: build(topology="3d"), "topology must be one of 2d, undirected, fwd_rev, fwd; found '3d'"),
        (lambda: build(sharing="all"), "sharing must be one of none, .*; found 'all'"),
        (lambda: build(conv_window="line"), "conv_window must be one of topology, grid; found 'line'"),
        (lambda: build(init="ours"), "init must be one of average, paper; found 'ours'"),
        (lambda: build(normalize="max"), "normalize must be one of mean, sqrt; found 'max'"),
        (lambda: build(mixer="mlp"), "mixer must be one of chimera, s4, hyena; found 'mlp'"),
        (lambda: build(hidden_size=0), "hidden_size must be an integer of at least 1, found 0"),
        (lambda: build(patch_size=2.5), "patch_size must be an integer of at least 1, found 2.5"),
        (lambda: build(drop_path=1.0), "drop_path must be from 0 to below 1, found 1.0"),
        (lambda: build(num_heads=5), "inner width 64 .* divisible by num_heads, found 5"),
        (lambda: build()(images(2, 3, 3, 16)), r"at least 4 × 4 pixels, one patch; found 3 × 16"),
        (lambda: build()(images(2, 1, 16, 16)), r"\[batch, 3, height, width\], found \[2, 1, 16, 16\]"),
        (lambda: build()(images(0, 3, 16, 16)), "a batch must have an image, found none"),
        (lambda: build()(images(3, 16, 16)), r"\[batch, 3, height, width\], found \[3, 16, 16\]"),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@ALL
@pytest.mark.parametrize("size", [(4, 4), (4, 28), (20, 4), (12, 32), (16, 16)])
def test_any_size_and_aspect_ratio(variant, size):
    model = build(variant).eval()
    pixels = images(3, 3, *size)
    outputs = model(pixels, output_hidden_states=True)
    assert outputs.logits.shape == (3, 10)
    assert [h.shape for h in outputs.hidden_states] == [(3, size[0] * size[1] // 16, 32)] * 4
    # each image is by itself
    torch.testing.assert_close(model(pixels[1:2]).logits, outputs.logits[1:2])


def test_the_model_is_what_it_says():
    """Patches, blocks, norm, mean, head: without positions, and with each block's mixer on the grid."""
    model = build().eval()
    pixels = images(2, 3, 8, 12)
    embedding = model.chimera.patch_embedding
    patches = pixels.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    x = patches @ embedding.weight.flatten(1).mT + embedding.bias
    for layer in model.chimera.layers:
        x = x + layer.mixer(layer.norm(x), chimera.Grid((2, 3)))
    torch.testing.assert_close(model(pixels).logits, model.classifier(model.chimera.norm(x).mean(dim=1)))


def test_sides_that_are_no_multiple_of_the_patch_are_padded():
    model, pixels = build().eval(), images(2, 3, 9, 18)
    padded = nn.functional.pad(pixels, (0, 2, 0, 3))
    assert torch.equal(model(pixels).logits, model(padded).logits)
    changed = pixels.clone()
    changed[:, :, -1, -1] += 1
    assert not torch.equal(model(changed).logits, model(pixels).logits)


@ALL
def test_round_trip_is_bitwise(variant, tmp_path):
    model, pixels = build(variant, num_labels=2, id2label={0: "cat", 1: "dog"}).eval(), images(2, 3, 12, 16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    twin, info = AutoModelForImageClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert isinstance(twin, ChimeraForImageClassification)
    assert twin.config.id2label == {0: "cat", 1: "dog"}
    assert {**twin.state_dict()}.keys() == {**model.state_dict()}.keys()
    assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), model.parameters(), strict=True))
    # loaded tensors lie elsewhere in memory, which may change the last bit of a product
    torch.testing.assert_close(twin(pixels).logits, model(pixels).logits)
    body = AutoModel.from_pretrained(tmp_path)
    assert isinstance(body, ChimeraImageModel)
    torch.testing.assert_close(body(pixels).last_hidden_state, model.chimera(pixels).last_hidden_state)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), ChimeraImageConfig)


@ALL
def test_what_a_checkpoint_lacks_is_initialised_and_what_it_has_is_kept(variant, tmp_path):
    """D and the head are left out: they come back as they begin, and nothing else changes."""
    model = build(variant)
    lacking = [name for name in model.state_dict() if name.startswith("classifier") or name.endswith(".D")]
    kept = {name: value.clone() for name, value in model.state_dict().items() if name not in lacking}
    model.save_pretrained(tmp_path, state_dict=dict(kept))
    twin = ChimeraForImageClassification.from_pretrained(tmp_path)
    for name, value in twin.state_dict().items():
        if name.endswith(".D"):
            assert (value == 1).all()
        elif name in lacking:
            assert value.abs().max() < 5 * 0.02 * (768 / 32) ** 0.5
        else:
            assert torch.equal(value, kept[name]), name


@pytest.mark.parametrize("topology", ["2d", "fwd_rev"])
def test_initial_weights(topology):
    model, std = (
        chimera.create_model("chimera_image_test", hidden_size=128, topology=topology),
        0.02 * (768 / 128) ** 0.5,
    )
    for name, parameter in model.named_parameters():
        if name.endswith(("proj.weight", "embedding.weight", "classifier.weight")):
            assert 0.9 * std < parameter.std() < 1.1 * std, name
        if name.endswith(("embedding.bias", "classifier.bias")):
            assert (parameter == 0).all(), name
        if name.endswith(("norm.weight", ".D")):
            assert (parameter == 1).all(), name
        if name.endswith("step_bias"):
            step = nn.functional.softplus(parameter)
            scale = 7 if topology == "2d" else 1
            assert 0.001 * scale * 0.99 < step.min()
            assert 0.01 * scale < step.max() < 0.1 * scale * 1.01


def test_marks_for_weight_decay_also_after_loading(tmp_path):
    model = build()
    model.save_pretrained(tmp_path)
    for twin in (model, ChimeraForImageClassification.from_pretrained(tmp_path)):
        undecayed = {n for n, p in twin.named_parameters() if p.dim() < 2 or getattr(p, "_no_weight_decay", False)}
        decayed = {tuple(n.split(".")[-2:]) for n, _ in twin.named_parameters() if n not in undecayed}
        names = ("in_proj", "out_proj", "conv", "patch_embedding", "classifier")
        assert decayed == {(name, "weight") for name in names}


@pytest.mark.parametrize(("channels", "mode"), [(3, "RGB"), (3, "L"), (1, "L"), (1, "RGB")])
def test_pipeline_offline(channels, mode, tmp_path):
    model = build(num_channels=channels)
    model.save_pretrained(tmp_path)
    ChimeraImageProcessor.for_model(model.config).save_pretrained(tmp_path)
    image = Image.effect_noise((30, 21), 50).convert(mode)
    found = pipeline("image-classification", str(tmp_path))(image, top_k=10)
    processor = AutoImageProcessor.from_pretrained(tmp_path)
    assert isinstance(processor, ChimeraImageProcessor)
    pixels = processor(image, return_tensors="pt")["pixel_values"]
    assert pixels.shape == (1, channels, 16, 16)
    expected = model.eval()(pixels).logits.softmax(-1)[0]
    scores = torch.tensor([next(f["score"] for f in found if f["label"] == f"LABEL_{n}") for n in range(10)])
    torch.testing.assert_close(scores, expected)


def test_the_processor_keeps_sizes_when_asked():
    processor = ChimeraImageProcessor()
    image = Image.new("RGB", (40, 20), (255, 0, 0))
    whole = processor(image, do_resize=False, return_tensors="pt")["pixel_values"]
    assert whole.shape == (1, 3, 20, 40)
    torch.testing.assert_close(
        whole[0, :2, 0, 0].double(), torch.tensor([(1 - 0.485) / 0.229, -0.456 / 0.224]).double()
    )
    shorter = processor(image, size={"shortest_edge": 32}, return_tensors="pt")["pixel_values"]
    assert shorter.shape == (1, 3, 32, 64)
    with pytest.raises(ValueError, match=r"expected an image with 3 channels, found an array of shape \[1, 8, 8\]"):
        processor(torch.zeros(1, 8, 8), return_tensors="pt")


def gradients(model, pixels, labels):
    model.zero_grad()
    torch.manual_seed(3)
    model(pixels, labels=labels).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@ALL
def test_gradient_checkpointing_changes_nothing(variant):
    model, pixels, labels = build(variant, drop_path=0.3).train(), images(4, 3, 12, 16), torch.arange(4)
    plain = gradients(model, pixels, labels)
    model.gradient_checkpointing_enable()
    calls = []
    model.chimera.layers[1].mixer.register_forward_hook(lambda *_: calls.append(1))
    again = gradients(model, pixels, labels)
    assert len(calls) == 2
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert all(g.isfinite().all() and g.abs().max() > 0 for g in plain.values())


def test_outputs():
    model, pixels, labels = build().eval(), images(4, 3, 16, 16), torch.arange(4)
    outputs = model(pixel_values=pixels, labels=labels)
    torch.testing.assert_close(outputs.loss, nn.functional.cross_entropy(outputs.logits, labels))
    assert outputs.hidden_states is None
    loss, logits, hidden_states = model(pixels, labels=labels, output_hidden_states=True, return_dict=False)
    assert torch.equal(loss, outputs.loss)
    assert torch.equal(logits, outputs.logits)
    body = model.chimera(pixels)
    assert torch.equal(model.chimera.norm(hidden_states[-1]), body.last_hidden_state)
    assert torch.equal(body.last_hidden_state.mean(dim=1), body.pooler_output)
    model.config.output_hidden_states = True
    assert len(model(pixels).hidden_states) == 4


def test_pooling():
    mean, largest = build().eval(), build(pooling="max").eval()
    largest.load_state_dict(mean.state_dict())
    pixels = images(2, 3, 16, 24)
    patches = mean.chimera(pixels).last_hidden_state
    assert torch.equal(largest.chimera(pixels).pooler_output, patches.amax(dim=1))
    assert torch.equal(largest(pixels).logits, largest.classifier(patches.amax(dim=1)))
    with pytest.raises(ValueError, match="pooling must be one of mean, max; found 'sum'"):
        build(pooling="sum")


@ALL
def test_bfloat16(variant):
    model, pixels, labels = build(variant), images(4, 3, 12, 16), torch.arange(4)
    reference = model(pixels).logits
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(pixels, labels=labels)
    assert (outputs.logits - reference).norm() < 0.05 * reference.norm()
    outputs.loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    logits = model.bfloat16()(pixels).logits
    assert logits.dtype == torch.bfloat16
    assert (logits - reference).norm() < 0.05 * reference.norm()


def test_forward_patches_hear_only_those_before():
    model = build("fwd").eval()
    pixels = images(1, 3, 12, 16)
    changed = pixels.clone()
    changed[:, :, 4:8, 8:12] += 1  # patch 6 of 12
    before, after = (model.chimera(p).last_hidden_state[0] for p in (pixels, changed))
    assert torch.equal(before[:6], after[:6])
    assert not torch.equal(before[6:], after[6:])


@pytest.mark.parametrize("axis", [2, 3])
def test_a_mirrored_image_is_seen_alike_by_mirrored_weights(axis):
    """With B and C common to all DAGs: mirrored windows and steps see in a mirrored image what they saw before."""
    model = build("2d, complete").eval()
    pixels = images(2, 3, 12, 20)
    features = model.chimera(pixels).last_hidden_state.unflatten(1, (3, 5))
    with torch.no_grad():
        model.chimera.patch_embedding.weight.copy_(model.chimera.patch_embedding.weight.flip(axis))
        for layer in model.chimera.layers:
            mixer = layer.mixer
            mixer.conv.weight.copy_(mixer.conv.weight.flip(axis - 1))
            steps = mixer.in_proj.weight.split(mixer.splits)[2].view(mixer.num_heads, 2, 2, 2, -1)
            steps.copy_(steps.flip(axis - 1))
            mixer.step_bias.copy_(mixer.step_bias.view(-1, 2, 2, 2).flip(axis - 1).flatten(1))
    mirrored = model.chimera(pixels.flip(axis)).last_hidden_state.unflatten(1, (3, 5))
    torch.testing.assert_close(mirrored.flip(axis - 1), features)


def test_topologies_are_planned_once(monkeypatch):
    calls = []

    def counted(*args):
        calls.append(args)
        return window_table(*args)

    monkeypatch.setattr(window_conv, "window_table", counted)
    model = build()
    for _ in range(3):
        model(images(1, 3, 8, 12))
    assert len(calls) == 1


@pytest.mark.slow
def test_it_learns():
    """A bright patch in one corner: where it is, is the label; there are no position embeddings to tell."""
    model, labels = build(num_labels=4, hidden_size=32), torch.arange(4).repeat(8)
    pixels = 0.1 * images(32, 3, 16, 16)
    for n, label in enumerate(labels.tolist()):
        pixels[n, :, 12 * (label // 2) :, 12 * (label % 2) :][:, :4, :4] += 2
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(30):
        loss = model(pixels, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(pixels).logits.argmax(-1) == labels).float().mean() > 0.9
