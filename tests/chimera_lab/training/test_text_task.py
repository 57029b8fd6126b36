"""The task of text: its loss and metrics, runs, what a run saves."""

import json
from dataclasses import replace
from math import exp

import pytest
import torch
from torch.nn import functional as F

from chimera_lab.data.text import IGNORED
from chimera_lab.training.fit import evaluate, latest_checkpoint, train
from chimera_lab.training.kinds import count_parameters, create_task, match_parameters
from chimera_lab.training.records import read_table
from chimera_lab.training.run import Run
from chimera_lab.training.stopping import Interrupted
from chimera_lab.training.text_recipe import TextRecipe
from tests.chimera_lab.training.tiny import CPU, same_tables, train_in_processes, what_remains

TINY = TextRecipe(
    vocab_size=500, length=32, hidden_size=32, num_hidden_layers=2, state_size=4, num_heads=2,
    train_limit=200, steps=24, eval_every=12, batch_size=20, micro_batch=10, log_every=1, lr=5e-3, warmup_steps=4,
    weight_decay=1e-5, schedule="linear", final_lr=0.02,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "text", "text/tiny", TINY, CPU)
    train(run)
    return run


def batch_of(task, count=4):
    samples = task.test_samples()
    return samples.collate([samples.sample(n) for n in range(count)])


@pytest.mark.parametrize("mixer", ["chimera", "bert", "bert_rotary", "fnet"])
def test_the_loss_is_that_of_the_whole_model(mixer):
    recipe = replace(TINY, mixer=mixer)
    task = create_task(recipe)
    model = task.build_model(recipe).eval()
    batch = batch_of(task)
    found, whole = task.step(model, batch), model(input_ids=batch["input_ids"], labels=batch["labels"])
    asked = batch["labels"] != IGNORED
    torch.testing.assert_close(found.loss, whole.loss)
    torch.testing.assert_close(found.predictions, whole.logits[asked].float(), atol=1e-5, rtol=1e-4)
    assert found.count == int(asked.sum()) == len(found.targets)
    right = (whole.logits.argmax(-1) == batch["labels"])[asked].float().mean()
    torch.testing.assert_close(found.running["accuracy"], right)


def test_nothing_to_guess_is_no_loss():
    task = create_task(TINY)
    batch = batch_of(task)
    batch |= {"labels": torch.full_like(batch["labels"], IGNORED), "places": torch.empty(0, dtype=torch.int64)}
    found = task.step(task.build_model(TINY), batch)
    assert (float(found.loss.detach()), found.count) == (0.0, 0)
    found.loss.backward()


def test_metrics():
    metrics = create_task(TINY).metrics()
    scores, words = 3 * torch.randn(50, 500), torch.randint(500, (50,))
    scores[:20, words[:20]] += 100
    for metric in metrics.values():
        metric.update(scores[:30], words[:30])
        metric.update(scores[30:], words[30:])
    assert float(metrics["accuracy"].compute()) == pytest.approx(float((scores.argmax(-1) == words).float().mean()))
    assert float(metrics["perplexity"].compute()) == pytest.approx(exp(F.cross_entropy(scores, words)), rel=1e-4)


def test_a_run_learns_and_tells_of_it(finished):
    rows = read_table(finished.folder / "metrics.csv")
    wanted = {"step", "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "test_perplexity"}
    assert set(rows[0]) == wanted
    steps = read_table(finished.folder / "steps.csv")
    assert float(steps[-1]["loss"]) < float(steps[0]["loss"]) - 0.5
    result = json.loads((finished.folder / "result.json").read_text())["metrics"]
    assert result["perplexity"] == pytest.approx(exp(result["loss"]), rel=1e-4)
    assert result["loss"] < 6.2  # log 500


def test_fill_mask_on_a_run(finished):
    from transformers import pipeline

    fill = pipeline("fill-mask", str(finished.model))
    found = fill("return the value of [MASK].", top_k=3)
    assert len(found) == 3
    assert "token_type_ids" not in fill.tokenizer("return")


def test_a_stopped_run_goes_on_as_if_nothing_had_been(finished, tmp_path, monkeypatch):
    from chimera_lab.training.module import TrainingModule

    run = Run(tmp_path / "run", "text/tiny", TINY, replace(CPU, checkpoint_every=5))
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


def test_two_processes_give_the_losses_of_one(finished, tmp_path):
    two = Run(tmp_path / "two", "text/tiny", TINY, replace(CPU, devices=2, strategy="ddp"))
    two.create()
    train_in_processes(two, tmp_path / "program.py")
    same_tables(finished, two, rel=1e-3)


def test_the_model_of_a_run_is_bitwise_that_of_its_checkpoint(finished):
    from chimera_lab.training import checkpoints
    from chimera_ssm import ChimeraForMaskedLM

    state = checkpoints.load(latest_checkpoint(finished), TINY)["state_dict"]
    model = ChimeraForMaskedLM.from_pretrained(finished.model)
    trained = {name.removeprefix("model."): value for name, value in state.items()}
    assert trained.keys() == model.state_dict().keys()
    assert all(torch.equal(value, trained[name]) for name, value in model.state_dict().items())
    assert any(name.endswith("step_bias") for name in trained)


def test_evaluation_at_another_length(finished):
    checkpoint = latest_checkpoint(finished)
    same = evaluate(finished, finished.recipe, checkpoint).metrics
    assert same == pytest.approx(finished.result["metrics"], rel=1e-6)
    longer = evaluate(finished, replace(finished.recipe, length=128), checkpoint).metrics
    assert longer["loss"] != same["loss"]
    assert longer["loss"] < 6.2


def test_a_run_keeps_its_vocabulary_when_its_text_changes(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat and the dog lay on the rug\n" * 100)
    run = Run(tmp_path / "run", "text/tiny", replace(TINY, data=str(text), train_limit=None), CPU)
    train(run)
    text.write_text("quite another zebra quickly jumped over every lazy fox\n" * 120)
    task = create_task(run.recipe)
    task.load_metadata(run.about)
    words = task.text.tokenizer.get_vocab()
    assert "mat" in words
    assert "zebra" not in words
    with pytest.raises(ValueError, match="have changed since the run began, and some of the test data may have been"):
        evaluate(run, run.recipe, latest_checkpoint(run))
    (run.folder / "result.json").unlink()
    with pytest.raises(ValueError, match="have changed since the run began: restore them, or begin anew"):
        train(run, latest_checkpoint(run))
    elsewhere = text.rename(tmp_path / "elsewhere.txt")
    found = evaluate(run, replace(run.recipe, data=str(elsewhere)), latest_checkpoint(run))
    assert found.evaluated_on == str(elsewhere)
    assert found.samples > 30


def test_evaluation_on_other_text(finished, tmp_path):
    """On all of it, in the words of the run; of the run's own text on what was held out."""
    other = tmp_path / "other.txt"
    other.write_text("return the value of the function\n" * 100)
    found = evaluate(finished, replace(finished.recipe, data=str(other)), latest_checkpoint(finished))
    assert found.samples == (6 * 100 + 1) // 30
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "train.txt").write_text("return the value of the function\n" * 100)
    (tmp_path / "both" / "test.txt").write_text("return the value of the function\n" * 50)
    found = evaluate(finished, replace(finished.recipe, data=str(tmp_path / "both")), latest_checkpoint(finished))
    assert found.samples == (6 * 50 + 1) // 30
    (tmp_path / "both" / "train.txt").unlink()
    again = evaluate(finished, replace(finished.recipe, data=str(tmp_path / "both")), latest_checkpoint(finished))
    assert again == found
    limited = replace(finished, recipe=replace(finished.recipe, max_tokens=10**6))
    task = create_task(replace(limited.recipe, data=str(other)))
    limited.load_metadata(task, own_data=False)
    assert task.recipe.max_tokens is None


def test_baselines_with_positions_say_how_many_they_have():
    recipe = replace(TINY, mixer="bert", positions=16)
    task = create_task(recipe)
    with pytest.raises(ValueError, match="the model has 16 positions, found 32 tokens: shorten length"):
        task.step(task.build_model(recipe), batch_of(task))


@pytest.mark.parametrize("mixer", ["chimera", "m2", "mlp", "bert", "bert_rotary", "fnet"])
def test_tokenizers_know_the_longest_text_that_a_model_reads(mixer, tmp_path):
    from transformers import AutoTokenizer

    recipe = replace(TINY, mixer=mixer, positions=40)
    task = create_task(recipe)
    task.save(task.build_model(recipe), tmp_path)
    most = AutoTokenizer.from_pretrained(tmp_path).model_max_length
    assert most == 40 if mixer not in ("chimera", "m2") else most > 1e6


@pytest.mark.parametrize("mixer", ["bert", "bert_rotary", "fnet"])
def test_equal_parameters(mixer):
    recipe = replace(TINY, hidden_size=66)
    target = count_parameters(recipe)
    matched = match_parameters(replace(recipe, mixer=mixer), target)
    assert abs(count_parameters(matched) / target - 1) < 0.03
    longer = match_parameters(replace(recipe, mixer=mixer, positions=500), target)
    assert longer.hidden_size == matched.hidden_size  # positions that are never trained do not count


def test_running_figures_do_not_keep_the_graph():
    task = create_task(TINY)
    found = task.step(task.build_model(TINY), batch_of(task))
    assert not found.predictions.requires_grad
    assert not found.running["accuracy"].requires_grad
