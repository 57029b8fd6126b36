"""The task of causal language models: its loss and metrics, runs, baselines of equal size."""

import json
from dataclasses import replace
from math import exp

import pytest
import torch

from chimera_lab.data.text import IGNORED
from chimera_lab.recipes import find_recipe
from chimera_lab.training.causal_recipe import CausalRecipe
from chimera_lab.training.fit import evaluate, latest_checkpoint, train
from chimera_lab.training.kinds import count_parameters, create_task, match_parameters
from chimera_lab.training.records import read_table
from chimera_lab.training.run import Run
from chimera_lab.training.stopping import Interrupted
from tests.chimera_lab.training.tiny import CPU, what_remains

TINY = CausalRecipe(
    vocab_size=500, length=32, hidden_size=32, num_hidden_layers=2, state_size=4, num_heads=2,
    train_limit=200, steps=24, eval_every=12, batch_size=20, micro_batch=10, log_every=1, lr=5e-3, warmup_steps=4,
    weight_decay=1e-2, schedule="linear", final_lr=0.02,
)  # fmt: skip
MIXERS = pytest.mark.parametrize("mixer", ["chimera", "mamba2", "gpt2"])


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "causal", "text/tiny-causal", TINY, CPU)
    train(run)
    return run


def batch_of(task, count=4):
    samples = task.test_samples()
    return samples.collate([samples.sample(n) for n in range(count)])


@MIXERS
def test_the_loss_is_that_of_the_whole_model(mixer):
    """The model's own loss, of labels that it shifts itself, without special tokens."""
    recipe = replace(TINY, mixer=mixer)
    task = create_task(recipe)
    model = task.build_model(recipe).eval()
    batch = batch_of(task)
    labels = batch["input_ids"].clone()
    labels[torch.isin(labels, torch.tensor(task.text.tokenizer.all_special_ids))] = IGNORED
    found, whole = task.step(model, batch), model(input_ids=batch["input_ids"], labels=labels)
    torch.testing.assert_close(found.loss, whole.loss)
    assert found.count == int((labels[:, 1:] != IGNORED).sum()) == len(found.targets)
    scores = whole.logits[:, :-1][labels[:, 1:] != IGNORED]
    torch.testing.assert_close(found.predictions, scores.float(), atol=1e-5, rtol=1e-4)


@MIXERS
def test_a_word_is_predicted_from_those_before_it(mixer):
    recipe = replace(TINY, mixer=mixer)
    task = create_task(recipe)
    model, batch = task.build_model(recipe).eval(), batch_of(task, 1)
    before = task.step(model, batch).predictions
    changed = batch["input_ids"].clone()
    changed[0, 20:] = changed[0, 20:].flip(0)
    after = task.step(model, {**batch, "input_ids": changed}).predictions
    count = int((batch["labels"][0, :20] != IGNORED).sum())
    torch.testing.assert_close(after[:count], before[:count])
    assert not torch.allclose(after[count:], before[count:])


def test_a_run_learns_and_is_measured_by_perplexity(finished):
    rows = read_table(finished.folder / "metrics.csv")
    assert {"train_loss", "test_loss", "test_accuracy", "test_perplexity"} <= set(rows[0])
    result = json.loads((finished.folder / "result.json").read_text())["metrics"]
    assert result["perplexity"] == pytest.approx(exp(result["loss"]), rel=1e-4)
    assert result["loss"] < 6.0  # log 500 is 6.2
    task = create_task(TINY)
    assert (task.monitor, task.larger_is_better) == ("perplexity", False)
    found = evaluate(finished, finished.recipe, latest_checkpoint(finished)).metrics
    assert found == pytest.approx(result, rel=1e-6)


def test_a_stopped_run_goes_on_as_if_nothing_had_been(finished, tmp_path, monkeypatch):
    from chimera_lab.training.module import TrainingModule

    run = Run(tmp_path / "run", "text/tiny-causal", TINY, replace(CPU, checkpoint_every=5))
    step = TrainingModule.training_step

    def interrupted(self, batch, batch_idx):
        if self.steps_done == 17:
            raise Interrupted
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "training_step", interrupted)
        with pytest.raises(Interrupted):
            train(run)
    train(run, latest_checkpoint(run))
    first, second = what_remains(finished), what_remains(run)
    assert first.pop("config.yaml") != second.pop("config.yaml")  # checkpoint_every
    assert first == second


def test_a_run_generates(finished):
    from transformers import pipeline

    write = pipeline("text-generation", str(finished.model))
    options = {"max_new_tokens": 5, "do_sample": False, "add_special_tokens": False}
    assert write("the value of", **options)[0]["generated_text"].startswith("the value of")


@MIXERS
def test_equal_parameters(mixer):
    recipe = replace(TINY, hidden_size=66)
    target = count_parameters(recipe)
    matched = match_parameters(replace(recipe, mixer=mixer), target)
    assert abs(count_parameters(matched) / target - 1) < 0.03
    longer = match_parameters(replace(recipe, mixer=mixer, positions=500), target)
    assert longer.hidden_size == matched.hidden_size


def test_decays_are_exempt_from_weight_decay():
    from chimera_lab.training.optimizer import parameter_groups

    task = create_task(TINY)
    model = task.build_model(TINY)
    plain = {id(p) for group in parameter_groups(model, 1.0) if not group["weight_decay"] for p in group["params"]}
    mixer = model.chimera.layers[0].mixer
    assert all(id(p) in plain for p in (mixer.decay_bias, mixer.step_bias, mixer.norm.D))


@pytest.mark.parametrize("name", ["text/pydoc-causal", "text/wikitext2-causal"])
def test_recipes(name):
    recipe = find_recipe(name)
    assert (recipe.kind, recipe.mixer, recipe.injection, recipe.learn_decay) == ("causal", "chimera", "step", True)


def test_bad_values():
    from chimera_lab.baselines import causal_model

    with pytest.raises(ValueError, match="mixer must be one of chimera, mamba2, gpt2; found 'lstm'"):
        causal_model("lstm")
    with pytest.raises(ValueError, match="the inner width 64 must be divisible by the number of heads, 3"):
        causal_model("mamba2", hidden_size=32, num_heads=3)
    recipe = replace(TINY, mixer="gpt2", positions=16)
    task = create_task(recipe)
    with pytest.raises(ValueError, match="the model has 16 positions, found 32 tokens: shorten length"):
        task.step(task.build_model(recipe), batch_of(task))
    with pytest.raises(ValueError, match="there is no data set, no file and no folder 'recall:8'"):
        create_task(replace(TINY, data="recall:8")).text  # noqa: B018
