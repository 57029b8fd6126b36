"""A compiled run is the same run; and which runs are compiled."""

from dataclasses import replace

import pytest
import torch

from chimera_lab.recipes import find_recipe
from chimera_lab.training import compilation
from chimera_lab.training.checkpoints import checkpoints
from chimera_lab.training.compilation import compiles, prepare
from chimera_lab.training.fit import train
from chimera_lab.training.recipe import RuntimeConfig
from tests.chimera_lab.training.tiny import CPU, TINY, make_run, same_tables


@pytest.fixture
def traced(monkeypatch):
    """Graphs of the models that are compiled, by a compiler that changes nothing."""
    graphs = []
    torch._dynamo.reset()
    monkeypatch.setattr(compilation, "BACKEND", lambda graph, inputs: graphs.append(graph) or graph.forward)
    yield graphs
    torch._dynamo.reset()


def test_a_compiled_run_is_the_same_run(tmp_path, traced):
    few = {"epochs": 1, "train_limit": 64, "drop_path": 0.0}
    plain, compiled = make_run(tmp_path / "a", **few), make_run(tmp_path / "b", replace(CPU, compile="yes"), **few)
    train(plain)
    assert not traced
    train(compiled)
    assert traced
    same_tables(compiled, plain, rel=1e-4)
    one, two = (torch.load(checkpoints(run.checkpoints)[-1], weights_only=False) for run in (plain, compiled))
    assert one["state_dict"].keys() == two["state_dict"].keys()


def test_models_of_images_and_text_are_compiled_on_gpus():
    gpu, text, graph = RuntimeConfig(accelerator="gpu"), find_recipe("text/c4", "paper"), find_recipe("graph/nci")
    assert compiles(text, gpu)
    assert compiles(TINY, gpu)
    assert not compiles(TINY, CPU)
    assert not compiles(graph, gpu)
    assert not compiles(text, replace(gpu, strategy="fsdp"))
    assert not compiles(text, replace(gpu, compile="no"))


def test_mixed_precision_on_gpus_allows_tf32():
    before = torch.get_float32_matmul_precision()
    try:
        prepare(torch.nn.Identity(), find_recipe("graph/nci"), RuntimeConfig(accelerator="cpu", precision="bf16"))
        assert torch.get_float32_matmul_precision() == before
        prepare(torch.nn.Identity(), find_recipe("graph/nci"), RuntimeConfig(accelerator="gpu", precision="bf16"))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
