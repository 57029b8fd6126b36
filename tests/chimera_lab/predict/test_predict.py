"""Predictions for unlabelled data: equal to the model's, in Python and on the command line."""

import csv
import json

import numpy as np
import pytest
import torch
from rdkit.Chem import MolFromSmiles
from rdkit.Chem.rdMolDescriptors import CalcTPSA

import chimera_ssm as chimera
from chimera_lab.cli import main
from chimera_lab.data.mazes import draw_mazes
from chimera_lab.data.molecules import molecule_graph
from chimera_lab.predict import predict
from tests.chimera_lab.show.conftest import WORDS, saved  # noqa: F401  a fixture

SMILES = ["CCO", "C", "c1ccccc1O"]


def logits_of(model, smiles):
    x, edges, bonds = (torch.from_numpy(a.astype(np.int64)) for a in molecule_graph(smiles))
    return model.eval()(x=x, edge_index=edges, edge_attr=bonds).logits[0]


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification", "single_label_classification"])
def test_molecules(tmp_path, problem):
    torch.manual_seed(0)
    model = chimera.create_model("chimera_graph_test", problem_type=problem)
    model.save_pretrained(tmp_path)
    rows = predict(tmp_path, SMILES, batch_size=2)
    assert [row["input"] for row in rows] == SMILES
    for row in rows:
        logits = logits_of(model, row["input"])
        if problem == "single_label_classification":
            assert row["class"] == str(int(logits.argmax()))
            assert row["probability"] == pytest.approx(float(logits.softmax(0).max()), abs=1e-5)
            found = [row[f"probability of {k}"] for k in range(3)]
            expected = logits.softmax(0)
        else:
            found = [row[str(k)] for k in range(3)]
            expected = logits if problem == "regression" else logits.sigmoid()
        torch.testing.assert_close(torch.tensor(found), expected.detach(), atol=1e-5, rtol=1e-4)


def test_a_single_value_without_a_name_is_called_y(tmp_path):
    chimera.create_model("chimera_graph_test", problem_type="regression", num_labels=1).save_pretrained(tmp_path)
    assert [list(row) for row in predict(tmp_path, SMILES)] == [["input", "y"]] * len(SMILES)


def test_a_csv_of_molecules_on_the_command_line(tmp_path, capsys):
    chimera.create_model("chimera_graph_test", problem_type="regression").save_pretrained(tmp_path / "model")
    (tmp_path / "in.csv").write_text("name,molecule\nethanol,CCO\nmethane,C\n")
    args = ["predict", str(tmp_path / "model"), str(tmp_path / "in.csv"), "--smiles", "molecule"]
    assert main([*args, "--out", str(tmp_path / "out.csv")]) == 0
    assert main([*args, "--out", str(tmp_path / "out.json")]) == 0
    assert "2 predictions in" in capsys.readouterr().out
    assert main(args) == 0
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()
    for one, other in zip(rows, json.loads((tmp_path / "out.json").read_text()), strict=True):
        assert list(one) == ["input", "0", "1", "2"]
        assert {**one} == {key: str(value) for key, value in other.items()}


def test_images_in_a_folder(saved, tmp_path, capsys):  # noqa: F811
    from PIL import Image

    (tmp_path / "more").mkdir()
    Image.fromarray(np.full((5, 9), 200, np.uint8)).save(tmp_path / "more" / "two.png")
    Image.open(saved / "one.png").save(tmp_path / "one.png")
    (tmp_path / "notes.txt").write_text("not an image")
    assert main(["predict", str(saved / "image"), str(tmp_path), "--out", str(tmp_path / "out.json")]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["input"] for row in rows] == [str(tmp_path / "more" / "two.png"), str(tmp_path / "one.png")]
    for row in rows:
        alone = predict(saved / "image", [row["input"]])[0]
        assert alone == pytest.approx(row)
        assert row["probability"] == max(v for k, v in row.items() if k.startswith("probability of"))


def test_masked_words_of_lines(saved, tmp_path):  # noqa: F811
    lines = ["return a [MASK] of strings", "sorted [MASK] number [MASK]"]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    assert main(["predict", str(saved / "text"), str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.csv")]) == 0
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["input"] for row in rows] == [lines[0], lines[1], lines[1]]  # padding does not matter:
    assert rows[0]["word"] == predict(saved / "text", lines[:1])[0]["word"]
    assert all(row["word"] in WORDS for row in rows)


def test_continuations_of_lines(tmp_path):
    """Padding does not matter, and nothing that marks the end of a text follows the words that are given."""
    from transformers import BertTokenizer

    torch.manual_seed(0)
    model = chimera.create_model("chimera_causal_test", vocab_size=len(WORDS)).eval()
    model.save_pretrained(tmp_path / "model")
    BertTokenizer(vocab={word: k for k, word in enumerate(WORDS)}).save_pretrained(tmp_path / "model")
    (tmp_path / "in.txt").write_text("return a\nsorted strings of number\n")
    model_folder, lines, out = (str(tmp_path / name) for name in ("model", "in.txt", "out.json"))
    assert main(["predict", model_folder, lines, "--out", out]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["input"] for row in rows] == ["return a", "sorted strings of number"]
    assert predict(model_folder, ["return a"]) == rows[:1]
    ids = torch.tensor([[WORDS.index(word) for word in ("return", "a")]])
    for _ in range(20):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)
    expected = [WORDS[k] for k in ids[0, 2:] if not WORDS[k].startswith("[")]
    assert rows[0]["continuation"] == " ".join(expected).replace(" ##", "")


def test_classes_of_sentences_and_pairs(saved, tmp_path):  # noqa: F811
    from transformers import AutoTokenizer, BertTokenizer

    config = chimera.ChimeraTextConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, id2label={0: "no", 1: "yes"}
    )
    model = chimera.ChimeraForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    BertTokenizer(vocab={word: k for k, word in enumerate(WORDS)}).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    pair = "return a number\tof strings"
    for given, inputs in (("sorted strings", ("sorted strings",)), (pair, tuple(pair.split("\t")))):
        (row,) = predict(tmp_path, [given])
        ids = tokenizer(*inputs, return_tensors="pt")["input_ids"]
        expected = model(input_ids=ids).logits[0].softmax(0)
        assert row["class"] == ("no", "yes")[int(expected.argmax())]
        assert row["probability of yes"] == pytest.approx(float(expected[1]), abs=1e-5)
    with pytest.raises(ValueError, match="either every text is a pair"):
        predict(tmp_path, [pair, "sorted"])


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        ("graph", ["CCO", "hello"], "input 2: 'hello' is not a molecule"),
        ("graph", "CCO", r"must be a sequence .* pass \['CCO'\]"),
        ("text", ["a [MASK]", " "], "input 2 is empty"),
        ("text", ["a number"], r"input 1 has no \[MASK\]"),
        ("image", ["nowhere.png"], "there is no image nowhere.png"),
    ],
)
def test_inputs_that_cannot_be_read(saved, model, inputs, message):  # noqa: F811
    with pytest.raises(ValueError, match=message):
        predict(saved / model, inputs)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["graph", "nowhere.csv"], "there is no file or folder nowhere.csv"),
        (["graph", "."], "takes a csv file of molecules, found the folder"),
        (["graph", "one.png", "--out", "x.txt"], "must end in .csv or .json"),
        (["image", "text"], "has no images"),
        (["nothing", "one.png"], "neither a run nor a saved model"),
    ],
)
def test_command_lines_that_are_refused(saved, args, message, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(saved)
    assert main(["predict", *args]) == 2
    assert message in capsys.readouterr().err


def test_trained_models_of_the_package():
    assert predict("chimera_text_wikitext2", ["the end [MASK] the war"])[0]["word"] == "of"
    molecules = ["CCO", "c1ccccc1O", "CC(=O)O", "OCC(O)CO", "c1ccccc1C(=O)N"]
    rows = predict("chimera_graph_nci", molecules)
    for smiles, row in zip(molecules, rows, strict=True):
        expected = CalcTPSA(MolFromSmiles(smiles))
        assert abs(row["polar surface area, Å²"] - expected) < 15, smiles  # the mean of all molecules is 55
    pictures, labels = draw_mazes(12, 200, "test")
    model = chimera.create_model("chimera_image_mazes", pretrained=True)
    with torch.no_grad():
        found = model(pixel_values=pictures / 127.5 - 1).logits.argmax(1)
    assert (found == labels).float().mean() > 0.95
