"""Sizes that do not fit into memory are refused before any is taken."""

from dataclasses import replace

import pytest

from chimera_lab.training import memory
from chimera_lab.training.fit import train
from chimera_lab.training.kinds import create_task
from chimera_lab.training.memory import available_memory, check_memory
from chimera_lab.training.run import Run
from tests.chimera_lab.training.tiny import CPU, TINY


def task_of(recipe):
    """The task of a recipe, its data read."""
    task = create_task(recipe)
    task.train_samples()
    return task


def test_what_fits_is_not_refused():
    check_memory(task_of(TINY), TINY, CPU, TINY.micro_batch)
    assert 2**20 < available_memory() < 2**50


@pytest.mark.parametrize("layers", [1, 3])
def test_the_memory_is_that_of_weights_gradients_moments_average_and_states(monkeypatch, layers):
    recipe = replace(TINY, num_hidden_layers=layers)
    task = task_of(recipe)
    weights = sum(p.numel() for p in task.build_model(recipe).parameters())
    exact = 4 * (5 * weights + 7 * 16 * recipe.hidden_size * layers)
    monkeypatch.setattr(memory, "available_memory", lambda: exact)
    check_memory(task, recipe, CPU, 7)
    monkeypatch.setattr(memory, "available_memory", lambda: exact - 1)
    with pytest.raises(ValueError, match=f"a model with {weights:,} parameters and the hidden states of 7 samples"):
        check_memory(task, recipe, CPU, 7)
    monkeypatch.setattr(memory, "available_memory", lambda: 4 * (2 * weights + 7 * 16 * recipe.hidden_size))
    check_memory(task, recipe, CPU, 7, train=False)


def test_a_number_far_too_large_for_a_class_is_a_sentence(tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    from chimera_lab.training.graph_recipe import GraphRecipe

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = "".join(f"{'C' * (1 + k % 5)}O,{k % 3}\n" for k in range(40))
    (tmp_path / "a.csv").write_text(f"smiles,label\n{rows}CCN,1000000000\n")
    recipe = GraphRecipe(
        data=str(tmp_path / "a.csv"), targets="label", problem="single_label_classification", steps=1, batch_size=4
    )
    message = (
        r"a model with 1,000,000,001 classes or labels would take at least [\d,.]+ GiB of memory, and [\d,.]+ GiB are"
    )
    with pytest.raises(ValueError, match=message):
        train(Run(tmp_path / "run", "graph/tiny", recipe, CPU))
    assert not (tmp_path / "run").exists()
