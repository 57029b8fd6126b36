"""Auto classes, pipelines and adapters know our models after `import chimera_ssm` alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import chimera_ssm as chimera

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    image = chimera.create_model("chimera_image_test")
    image.save_pretrained(folder)
    chimera.ChimeraImageProcessor.for_model(image.config).save_pretrained(folder)
    return folder


def run(*lines, folder="."):
    """Run lines in a fresh process."""
    env = {**os.environ, "PYTHONPATH": str(Path(chimera.__file__).parents[1]), "HF_HUB_OFFLINE": "1"}
    code = [sys.executable, "-W", "ignore", "-c", "\n".join(lines)]
    out = subprocess.run(code, capture_output=True, text=True, cwd=folder, env=env)
    assert out.returncode == 0, out.stderr
    return out.stdout


LIGHT = "import sys, chimera_ssm; assert not {'torch', 'transformers', 'peft'} & set(sys.modules)"


def test_auto_classes(saved):
    out = run(
        LIGHT,
        "from transformers import AutoConfig, AutoModel",
        "assert 'chimera_ssm.models' not in sys.modules",
        "print(type(AutoModel.from_pretrained('.')).__name__)",
        "print(type(AutoConfig.for_model('chimera_text', vocab_size=7)).__name__)",
        folder=saved,
    )
    assert out.split() == ["ChimeraImageModel", "ChimeraTextConfig"]


def test_every_model_type_is_known_in_advance():
    from chimera_ssm import integrations, models

    configurations = [getattr(models, name) for name in models.__all__ if name.endswith("Config")]
    assert sorted(integrations.MODEL_TYPES) == sorted(config.model_type for config in configurations)


@pytest.mark.parametrize("first", ["import chimera_ssm", "from transformers import AutoImageProcessor"])
def test_image_processors_and_pipelines(saved, first):
    out = run(
        first,
        "import chimera_ssm",
        "from transformers import AutoImageProcessor, pipeline",
        "print(type(AutoImageProcessor.from_pretrained('.')).__name__)",
        "from PIL import Image",
        "print(len(pipeline('image-classification', '.')(Image.new('RGB', (20, 20)))))",
        folder=saved,
    )
    assert out.split()[0] == "ChimeraImageProcessor"
    assert int(out.split()[-1]) > 1


@pytest.mark.parametrize("kind", ["text", "causal", "image", "graph"])
def test_adapters_have_default_targets(kind):
    peft = pytest.importorskip("peft")
    model = chimera.create_model(f"chimera_{kind}_test")
    adapted = peft.get_peft_model(model, peft.LoraConfig())
    names = {name.split(".")[-2] for name, module in adapted.named_modules() if name.endswith(".lora_A")}
    assert names == {"in_proj", "out_proj"}


def test_code_in_saved_folders(tmp_path):
    run(
        "import chimera_ssm as c",
        "c.ChimeraTextConfig.register_for_auto_class()",
        "c.ChimeraForMaskedLM.register_for_auto_class('AutoModelForMaskedLM')",
        "c.create_model('chimera_text_test').save_pretrained('.')",
        folder=tmp_path,
    )
    out = run(
        "from transformers import AutoModelForMaskedLM",
        "print(type(AutoModelForMaskedLM.from_pretrained('.', trust_remote_code=True)).__name__)",
        folder=tmp_path,
    )
    assert out.split() == ["ChimeraForMaskedLM"]
