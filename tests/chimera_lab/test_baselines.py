"""The registry of mixers: baselines are known after `chimera_lab.baselines` is imported, and saved models load then."""

import json
import subprocess
import sys

import pytest
import torch

import chimera_ssm as chimera
from chimera_lab import baselines
from chimera_ssm.models.mixers import known_mixers

SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "state_size": 4, "num_heads": 2}
IMAGE = {**SIZES, "patch_size": 4, "image_size": 8, "num_labels": 3}
TEXT = {**SIZES, "vocab_size": 20, "max_length": 8}
SAVED = {
    ("image", "s4"): lambda: chimera.ChimeraForImageClassification(chimera.ChimeraImageConfig(**IMAGE, mixer="s4")),
    ("text", "m2"): lambda: chimera.ChimeraForMaskedLM(chimera.ChimeraTextConfig(**TEXT, mixer="m2")),
    ("graph", "gcn_plus"): lambda: chimera.ChimeraForGraphs(chimera.ChimeraGraphConfig(**SIZES, mixer="gcn_plus")),
}


def test_known_mixers():
    assert known_mixers("image") == ("chimera", "s4", "hyena")
    assert known_mixers("text") == ("chimera", "mlp", "m2")
    assert known_mixers("graph") == (
        "chimera", "gcn", "gcn_plus", "gine", "gated_gcn", "gps", "san", "exphormer", "bigbird", "graph_mamba", "gmn",
        "neural_walker", "neural_walker_chimera",
    )  # fmt: skip


def test_an_unknown_mixer_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"mixer must be one of chimera, mlp, m2; found 's4'$"):
        chimera.ChimeraTextConfig(mixer="s4")


@pytest.mark.parametrize("key", SAVED, ids=str)
def test_saved_baselines_load_after_the_import_only(key, tmp_path):
    SAVED[key]().save_pretrained(tmp_path)
    name = json.loads((tmp_path / "config.json").read_text())["architectures"][0]
    code = (
        "import chimera_ssm as c\n"
        f"load = lambda: c.{name}.from_pretrained({str(tmp_path)!r})\n"
        "try: load()\n"
        "except ValueError as error: assert str(error).endswith('for a baseline, import chimera_lab.baselines first')\n"
        "else: raise AssertionError\n"
        "import chimera_lab.baselines\n"
        "load()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("key", SAVED, ids=str)
def test_a_folder_of_an_earlier_version(key, tmp_path):
    """Names of weights and settings are those of version 0.1.0 before the baselines moved."""
    model = SAVED[key]()
    model.save_pretrained(tmp_path)
    weights = {
        "image": "chimera.layers.1.mixer.log_decay",
        "text": "chimera.layers.1.mixer.gate.weight",
        "graph": "chimera.layers.1.conv.linear.weight",
    }[key[0]]
    assert weights in model.state_dict()
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["model_type"] == f"chimera_{key[0]}"
    assert settings["mixer"] == key[1]
    twin, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    for name, weight in model.state_dict().items():
        assert torch.equal(twin.state_dict()[name], weight), name


def test_presets_of_baselines():
    assert "bert_70m_6l" in chimera.list_models()
    assert baselines.image_classifier("s4", **IMAGE).config.mixer == "s4"
