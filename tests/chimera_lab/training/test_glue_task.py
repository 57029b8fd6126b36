"""Fine-tuning: from a run, on any task, with the task's own metrics."""

from dataclasses import replace

import pytest
import torch
from scipy import stats
from sklearn import metrics as truth
from torch.nn import functional as F

from chimera_lab.baselines import text_model
from chimera_lab.data.glue import TASKS
from chimera_lab.training.fit import evaluate, latest_checkpoint, train
from chimera_lab.training.glue_recipe import GlueRecipe
from chimera_lab.training.kinds import count_parameters, create_task, match_parameters
from chimera_lab.training.run import Run, open_run
from chimera_lab.training.saving import save_with_tokenizer
from tests.chimera_lab.data.test_glue import FILES, write
from tests.chimera_lab.training.tiny import CPU, what_remains

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "good", "bad", "film")
TINY = GlueRecipe(glue="sst2", epochs=6, batch_size=8, lr=5e-3, weight_decay=1e-5, schedule="linear", length=16)


def pretrained(folder, mixer="chimera"):
    """A run's folder with a model that knows the words."""
    from transformers import BertTokenizer

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "num_heads": 2, "max_length": 32}
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})
    model = text_model(mixer, vocab_size=len(WORDS), **sizes)
    save_with_tokenizer(model, tokenizer, folder / "model")
    return model


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    good, bad = (f"one {word} film two\t{label}" for word, label in (("good", 1), ("bad", 0)))
    shorter = [f"{word}\t{label}" for word, label in (("good", 1), ("bad", 0))]
    write(folder, "sst2", train=[good, bad, *shorter] * 6, dev=[good, bad, *shorter] * 2)
    return str(folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, start, reviews):
    recipe = replace(TINY, from_=start, data=reviews)
    run = Run(tmp_path_factory.mktemp("runs") / "sst2", "text/glue-sst2", recipe, CPU)
    train(run)
    return run


def test_it_learns_and_is_used(finished):
    from transformers import pipeline

    assert finished.result["metrics"]["accuracy"] == 1
    found = pipeline("text-classification", str(finished.model))(["two good film", "bad film"])
    assert [f["label"] for f in found] == ["1", "0"]
    again = evaluate(open_run(finished.folder), finished.recipe, latest_checkpoint(finished)).metrics
    assert again == pytest.approx(finished.result["metrics"])


def test_a_run_stands_alone_when_the_model_it_came_from_is_gone(start, reviews, tmp_path):
    import shutil

    shutil.copytree(start, tmp_path / "start")
    run = Run(tmp_path / "run", "text/glue-sst2", replace(TINY, from_=str(tmp_path / "start"), data=reviews), CPU)
    train(run)
    shutil.rmtree(tmp_path / "start")
    again = evaluate(run, run.recipe, latest_checkpoint(run))
    assert again.metrics == pytest.approx(run.result["metrics"])
    assert (again.evaluated_on, run.result["evaluated_on"]) == ("dev data", "dev")
    (run.folder / "result.json").unlink()
    before = what_remains(run)
    assert train(run, latest_checkpoint(run))["metrics"] == pytest.approx(again.metrics)
    assert what_remains(run) == before


def test_the_body_is_the_one_that_was_trained(tmp_path, start, reviews):
    model = pretrained(tmp_path)
    recipe = replace(TINY, from_=str(tmp_path), data=reviews)
    begun = create_task(recipe).build_model(recipe)
    for name, value in model.chimera.state_dict().items():
        assert torch.equal(value, begun.chimera.state_dict()[name]), name


@pytest.mark.parametrize("mixer", ["chimera", "bert", "bert_rotary", "fnet"])
@pytest.mark.parametrize("name", ["mnli", "stsb"])
def test_any_task_from_any_model(mixer, name, tmp_path):
    model = pretrained(tmp_path / "start", mixer)
    write(tmp_path / "data", name)
    recipe = replace(TINY, glue=name, from_=str(tmp_path / "start"), data=str(tmp_path / "data"))
    task = create_task(recipe)
    samples = task.train_samples()
    model = task.build_model(recipe).eval()
    batch = samples.collate([samples.sample(n) for n in range(2)])
    found = task.step(model, batch)
    logits = model(**{key: value for key, value in batch.items() if key != "labels"}).logits
    if name == "stsb":
        torch.testing.assert_close(found.loss, F.mse_loss(logits[:, 0], batch["labels"]))
    else:
        assert logits.shape == (2, 3)
        torch.testing.assert_close(found.loss, F.cross_entropy(logits, batch["labels"]))
    assert found.predictions.shape == found.targets.shape == (2,)


def test_from_one_task_to_another(finished, tmp_path):
    """MRPC after a task of two classes keeps the head, MNLI with three gets a new one."""
    for name, kept in (("mrpc", True), ("mnli", False)):
        write(tmp_path / name, name)
        recipe = replace(TINY, glue=name, from_=str(finished.folder), data=str(tmp_path / name))
        model = create_task(recipe).build_model(recipe)
        before = create_task(replace(finished.recipe, from_=str(finished.folder))).build_model(recipe)
        assert (model.classifier.weight.shape == before.classifier.weight.shape) == kept
        assert torch.equal(model.chimera.embeddings.weight, before.chimera.embeddings.weight)
        assert list(model.config.label2id) == list(TASKS[name].classes)


def values(metrics, predictions, targets):
    for metric in metrics.values():
        metric.update(predictions[:30], targets[:30])
        metric.update(predictions[30:], targets[30:])
    return {name: float(metric.compute()) for name, metric in metrics.items()}


def test_metrics_are_the_tasks_own(start):
    guesses, labels = torch.randint(2, (50,)), torch.randint(2, (50,))
    scores, targets = torch.rand(50), 5 * torch.rand(50)
    expected = {
        "accuracy": truth.accuracy_score(labels, guesses),
        "f1": truth.f1_score(labels, guesses),
        "matthews": truth.matthews_corrcoef(labels, guesses),
        "pearson": stats.pearsonr(scores, targets).statistic,
        "spearman": stats.spearmanr(scores, targets).statistic,
    }
    table = {"cola": "matthews", "mrpc": "f1", "stsb": "spearman"}  # accuracy for all others
    for name in FILES:
        task = create_task(replace(TINY, glue=name, from_=start))
        assert task.monitor == table.get(name, "accuracy")
        found = values(task.metrics(), *((scores, targets) if name == "stsb" else (guesses, labels)))
        assert found == pytest.approx({metric: expected[metric] for metric in found}, abs=1e-5)
        assert task.monitor in found


def test_guessing_the_majority(tmp_path):
    rows = {
        "cola": [f"g\t{label}\t\tone" for label in (1, 1, 0, 1)],
        "mrpc": [f"{label}\t1\t2\tone\ttwo" for label in (0, 1, 1)],
    }
    expected = {"cola": {"matthews": 0.0}, "mrpc": {"f1": 0.8, "accuracy": 2 / 3}}
    for name, lines in rows.items():
        write(tmp_path / name, name, train=lines, dev=lines)
        task = create_task(replace(TINY, glue=name, data=str(tmp_path / name)))
        assert task.majority() == pytest.approx(expected[name])
    write(tmp_path / "stsb", "stsb")
    assert create_task(replace(TINY, glue="stsb", data=str(tmp_path / "stsb"))).majority().keys() == {
        "spearman",
        "pearson",
    }


def test_what_cannot_be_started_from(tmp_path, reviews):
    recipe = replace(TINY, data=reviews)
    with pytest.raises(ValueError, match=r"which model .* with --from RUN"):
        create_task(recipe).train_samples()
    with pytest.raises(ValueError, match="is neither a run nor a folder with a model"):
        create_task(replace(recipe, from_=str(tmp_path))).train_samples()
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(ValueError, match="is a run without a model/ yet: finish it with chimera train --resume"):
        create_task(replace(recipe, from_=str(tmp_path))).train_samples()


def test_sizes_are_those_of_the_model(start, reviews):
    recipe = replace(TINY, from_=start, data=reviews)
    assert match_parameters(recipe, count_parameters(recipe)) is recipe
    with pytest.raises(ValueError, match=r"parameters, not 1,000 within 3 %: start from one that has"):
        match_parameters(recipe, 1000)


def test_from_on_the_command_line(start, reviews, tmp_path, capsys):
    from chimera_lab.cli import main

    out = ["--out", str(tmp_path / "run"), "--accelerator", "cpu"]
    command = ["train", "text/glue-sst2", "--data", reviews, "--from", start, "--epochs", "1", "--batch-size", "8"]
    command += ["--train-limit", "none"]
    assert main([*command, *out]) == 0
    assert open_run(tmp_path / "run").recipe.from_ == start
    assert main(["train", "text/glue-sst2", "--data", reviews, "--out", str(tmp_path / "other")]) == 2
    assert "with --from RUN" in capsys.readouterr().err
