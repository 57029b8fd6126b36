"""Model cards of saved models."""

import subprocess
import sys

import chimera_ssm as chimera
from chimera_ssm.models.card import card


def test_a_saved_folder_has_a_card_that_loads_the_model(tmp_path):
    chimera.create_model("chimera_text_test").save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "pipeline_tag: fill-mask" in text
    assert "Not recorded." in text
    code, _ = snippets(text, tmp_path)
    found = {}
    exec(code, found)
    assert isinstance(found["model"], chimera.ChimeraForMaskedLM)


def snippets(text, folder):
    return [part.split("```")[0].replace("this folder", str(folder)) for part in text.split("```python\n")[1:]]


def test_the_pipeline_of_a_card_runs_in_a_process_of_its_own(tmp_path):
    chimera.create_model("chimera_image_test").save_pretrained(tmp_path)
    chimera.ChimeraImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path)
    _, code = snippets((tmp_path / "README.md").read_text(), tmp_path)
    code += "\nassert type(pipe.model).__name__ == 'ChimeraForImageClassification'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "import chimera_ssm  # registers" in code


def test_a_causal_model_has_its_pipeline():
    assert "pipeline_tag: text-generation" in card(chimera.create_model("chimera_causal_test"))


def test_a_card_that_is_there_is_kept(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    chimera.create_model("chimera_graph_test").save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_data_and_metrics():
    model = chimera.create_model("chimera_graph_test")
    text = card(model, data="molecules", metrics={"mae": 0.12345}, command="chimera train graph/nci")
    assert "| mae | 0.1235 |" in text
    assert "molecules" in text
    assert "    chimera train graph/nci" in text
    assert "pipeline_tag" not in text
    assert "Not recorded" not in text
