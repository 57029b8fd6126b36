"""Views of models: rows of the resolvents, named nodes, what fits into a page."""

import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import chimera_ssm as chimera
from chimera_lab import baselines
from chimera_lab.show import picture, view
from chimera_lab.show.loading import load
from chimera_lab.show.models import show_model
from tests.chimera_lab.show.conftest import SENTENCE

SMILES = "OC1=CC=C(N)C=C1"


def test_rows_of_an_image_are_those_of_the_model(saved):
    trained = load(saved / "image")
    found = show_model(trained, str(saved / "one.png"), "1,2", 2, None)
    assert found.scene.drawing["rows"] == found.scene.drawing["columns"] == 4
    assert found.planes.shape == (1 + 3, 1 + 4, 16, 16)
    assert (found.node, found.chosen) == (6, (3, 0))
    from chimera_lab.show.images import scene

    rows = chimera.influence(trained.model, 6, **scene(trained, str(saved / "one.png"))[1])
    np.testing.assert_allclose(found.row, rows[2][0].mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.planes[0, 2, 6], torch.stack(rows)[:, 0, 1].mean(0), rtol=1e-5)
    assert found.note.startswith("Output of the resolvent, relative to the direct connection around it, ")


def test_a_sentence_begins_at_its_mask(saved):
    found = show_model(load(saved / "text"), SENTENCE, None, None, 1)
    assert found.scene.labels[found.node] == "[MASK]"
    assert found.scene.labels[-3:] == ["by", "number", "[SEP]"]
    assert found.scene.prediction.startswith("[MASK] predicted as ")
    assert found.scene.prediction.count(" or ") == 2
    assert show_model(load(saved / "text"), "sorted number", "number", None, None).scene.find("number") == 2


def test_words_in_parts_are_joined(saved):
    texts = show_model(load(saved / "text"), "sort sortedsort sorteded", None, None, None).scene.drawing
    assert texts["texts"][1:-1] == ["sort", "[UNK]", "sorted", "ed"]
    assert texts["joined"][1:-1] == [False, False, False, True]


def test_a_molecule_has_symbols_strokes_and_all_its_bonds(saved):
    found = show_model(load(saved / "graph"), SMILES, "N5", None, None)
    assert found.scene.drawing["symbols"] == [f"{symbol}{k}" for k, symbol in enumerate("OCCCCNCC")]
    assert len(found.scene.drawing["links"]) == 8
    assert sorted({strokes for *_, strokes in found.scene.drawing["links"]}) == [1, 1.5]
    assert (found.row > 0).all()
    apart = np.array(
        [np.subtract(*np.array(found.scene.drawing["places"])[[a, b]]) for a, b, _ in found.scene.drawing["links"]]
    )
    np.testing.assert_allclose(np.linalg.norm(apart, axis=1), 1.5, atol=0.05)


def test_dollar_signs_in_names_are_drawn_as_they_are(saved, tmp_path):
    import shutil

    for name in (r"$\nothing$.png", "$a_{$.png", "$$.png", "one$.png"):
        shutil.copy(saved / "one.png", tmp_path / name)
        found = show_model(load(saved / "image"), str(tmp_path / name), None, None, None)
        picture.draw(found, tmp_path / "drawn.png")
        assert found.scene.title == name
        assert (tmp_path / "drawn.png").stat().st_size > 1000
    assert picture.literal(r"$\nothing$") == r"\$\nothing\$"


@pytest.mark.parametrize(
    ("problem", "logits", "prediction"),
    [
        ("single_label_classification", [0, -1, 1], "predicted: class 2 (0.67), class 0 (0.24), class 1 (0.09)"),
        ("multi_label_classification", [0, -1, 1], "probabilities: 0.5, 0.269, 0.731"),
        ("regression", [0, -1, 1], "predicted: 0, -1, 1"),
        ("regression", [9, 8, 7, 6, 5, 4], "predicted: 9, 8, 7, 6, 5, …"),
    ],
)
def test_what_a_model_makes_of_a_molecule(tmp_path, problem, logits, prediction):
    model = chimera.create_model("chimera_graph_test", problem_type=problem, num_labels=len(logits))
    with torch.no_grad():
        model.head.out.weight.zero_()
        model.head.out.bias.copy_(torch.tensor(logits))
    model.save_pretrained(tmp_path)
    assert show_model(load(tmp_path), SMILES, None, None, None).scene.prediction == prediction


def test_codes_tell_values_within_two_per_cent_and_zero_from_little():
    planes = np.geomspace(1e-9, 3, 1000, dtype=np.float32).reshape(1, 1, 10, 100)
    planes[0, 0, 0, :5] = 0
    scene = view.Scene("graph", "", "node", [str(k) for k in range(100)], {})
    shown = view.View(scene, planes, (("", [""]), ("", [""])), np.arange(10))
    codes, (low, high) = shown.codes().astype(float), view.span(planes)
    assert high / low == pytest.approx(view.SPAN, rel=1e-3)
    visible = planes >= low
    assert (codes[~visible] == 0).all()
    assert (codes[visible] > 0).all()
    np.testing.assert_allclose(low * (high / low) ** ((codes[visible] - 1) / 254), planes[visible], rtol=0.02)


def test_silence_has_a_span_too():
    low, high = view.span(np.zeros((2, 2)))
    assert 0 < low < high


def test_large_inputs_keep_some_nodes_and_the_chosen_one(monkeypatch):
    monkeypatch.setattr(view, "MAX_BYTES", 40_000)
    requested = []

    def rows_of(nodes):
        requested.append(nodes)
        return np.ones((3, 1, len(nodes), 200), np.float32)

    scene = view.Scene("graph", "", "node", [str(k) for k in range(200)], {})
    found = view.influence_view(scene, rows_of, 77, None, None)
    assert len(found.nodes) == 25 == len(set(requested[-1]))
    assert 77 in found.nodes
    assert found.row.shape == (200,)
    assert "25 of 200 nodes" in found.note


@pytest.mark.parametrize(
    ("kind", "given", "options", "message"),
    [
        ("image", None, (None, None, None), "a model without its data: give an image file as the input"),
        ("image", "nowhere.png", (None, None, None), "there is no image nowhere.png"),
        ("image", "one.png", ("9,9", None, None), "--node is the number of one patch, 0 to 15, or its label"),
        ("text", SENTENCE, (None, 2, None), "--layer is from 0 to 1 in this model, found 2"),
        ("text", SENTENCE, (None, None, -1), "--head is from 0 to 3 in this model, found -1"),
        ("text", "caf\udce9", (None, None, None), r"the sentence 'caf.udce9' is not UTF-8 text"),
        ("graph", "C(", (None, None, None), "is not a molecule that rdkit can read"),
        ("graph", "C\udce9", (None, None, None), "is not a molecule that rdkit can read"),
    ],
)
def test_mistakes_say_what_to_do(saved, kind, given, options, message):
    given = str(saved / given) if given == "one.png" else given
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        show_model(load(saved / kind), given, *options)


def test_an_image_of_16_bits_is_shown_as_it_is(saved, tmp_path):
    """Also under a name that is not UTF-8."""
    from chimera_lab.show import page
    from chimera_lab.show.images import scene

    trained = load(saved / "image")
    shades = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
    path = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Image.fromarray(shades).save(path)
    pixels = scene(trained, os.fsdecode(path))[1]["pixel_values"][0, 0]
    np.testing.assert_allclose(pixels.numpy(), shades / 65535 * 2 - 1, atol=1e-5)
    page.view_page(show_model(trained, os.fsdecode(path), None, None, None)).encode()


def broken(name, content):
    return pytest.param(name, content, id=f"{name} {content[:30]}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        broken("config.json", b"{"),
        broken("config.json", b"[]"),
        broken("config.json", b"\xff"),
        broken("config.json", b"[" * 100_000),
        broken("config.json", b'{"architectures": 3}'),
        broken("config.json", b'{"architectures": ["ChimeraForGraphs", "ChimeraForMaskedLM"]}'),
        broken("config.json", b'{"architectures": ["ChimeraForMaskedLM"], "hidden_size": "many"}'),
        broken("model.safetensors", b""),
        broken("model.safetensors", b"\xff" * 100),
        broken("tokenizer.json", b"{"),
        broken("tokenizer.json", b"[1]"),
    ],
)
def test_broken_models_are_one_sentence(saved, tmp_path, name, content):
    folder = shutil.copytree(saved / "text", tmp_path / "model")
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"(cannot be read|is damaged).*; save|model holds a model without"):
        show_model(load(folder), SENTENCE, None, None, None)


def test_a_model_without_some_of_its_weights_is_refused(saved, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(saved / "graph", tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (name, *_) = sorted(weights)
    weights["other"] = weights.pop(name)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"does not hold the weights that its config.json asks for: .* save the model"):
        load(folder)


def test_folders_without_a_chimera_are_refused(saved, tmp_path):
    with pytest.raises(ValueError, match="neither a run nor a saved model"):
        load(tmp_path)
    vit = baselines.image_classifier("vit", hidden_size=16, num_hidden_layers=1, image_size=8, patch_size=4)
    vit.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="only Chimera's models have resolvents"):
        load(tmp_path)


@pytest.mark.parametrize(("kind", "given"), [("image", "one.png"), ("text", SENTENCE), ("graph", SMILES)])
def test_pictures_are_drawn(saved, tmp_path, kind, given):
    picture.draw(
        show_model(load(saved / kind), str(saved / given) if kind == "image" else given, None, None, None),
        tmp_path / "a.png",
    )
    colours = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) > 50
