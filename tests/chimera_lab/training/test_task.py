"""Steps on GPUs, as far as tensors without values can tell."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from chimera_lab.planning.synthetic_data import task_without_data
from chimera_lab.recipes import find_recipe
from chimera_ssm.gpu.availability import assume_gpu
from chimera_ssm.gpu.launch import recorded_launches

SMALL = {"hidden_size": 64, "num_heads": 2, "num_hidden_layers": 1, "state_size": 4}


@pytest.mark.parametrize("name", ["image/imagenet", "text/c4"])
def test_a_step_looks_at_no_values(name):
    """Tensors on ``meta`` have none: whatever would wait for a GPU (item, nonzero, cpu, …) is an error there."""
    pytest.importorskip("triton")
    recipe = replace(find_recipe(name, "paper"), **SMALL)
    task = task_without_data(recipe)
    samples = task.train_samples()
    batch = samples.collate([samples.sample(index) for index in range(2)])
    batch = {key: value.to("meta") if isinstance(value, Tensor) else value for key, value in batch.items()}
    with torch.device("meta"):
        model = task.build_model(recipe).train()
    with assume_gpu(), recorded_launches() as launches:
        loss = task.step(model, batch).loss
        forward = len(launches)
        loss.backward()
    assert forward
    assert loss.device.type == "meta"
    assert all(p.grad is not None for p in model.parameters())
