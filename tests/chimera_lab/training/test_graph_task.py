"""The tasks of graphs: metrics against their formulas, training, what is saved."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from chimera_lab.training.checkpoints import checkpoints
from chimera_lab.training.fit import evaluate, latest_checkpoint, train
from chimera_lab.training.graph_metrics import Accuracy, AveragePrecision, MacroF1, MeanAbsoluteError
from chimera_lab.training.graph_recipe import GraphRecipe
from chimera_lab.training.kinds import count_parameters, create_task, match_parameters, recipe_class
from chimera_lab.training.run import Run
from chimera_ssm.models import ChimeraForGraphs
from chimera_ssm.models.mixers import known_mixers
from tests.chimera_lab.training.tiny import CPU

pytest.importorskip("rdkit")
pytest.importorskip("ogb")
pytest.importorskip("torch_geometric")

MOLECULES = ["C" * n for n in range(1, 13)] + ["O" * (n % 2) + "C" * n + "O" for n in range(1, 13)]
MIXERS = known_mixers("graph")
TINY = GraphRecipe(
    hidden_size=8, num_hidden_layers=2, state_size=4, num_heads=2, dropout=0.1, epochs=2, batch_size=8, log_every=1,
    lr=1e-2, validation=0.25,
)  # fmt: skip


@pytest.fixture
def data(tmp_path):
    rows = [f"{s},{s.count('O') + 0.1 * len(s)},{s.count('O')},{int('O' in s)}" for s in MOLECULES]
    path = tmp_path / "oxygen.csv"
    path.write_text("\n".join(["smiles,y,count,has", *rows]) + "\n")
    return str(path)


def update(metric, *batches):
    for predictions, targets in batches:
        metric.update(predictions, targets)
    return float(metric.compute())


def test_average_precision_is_over_labels_that_occur():
    from sklearn.metrics import average_precision_score

    torch.manual_seed(0)
    scores = torch.randn(50, 5).mul(3).round()  # with ties
    labels = (torch.rand(50, 5) < 0.3).float()
    labels[:, 1], labels[:, 3] = 0, 1
    labels[:20, 4] = torch.nan
    expected = [average_precision_score(labels[:, k], scores[:, k]) for k in (0, 2)]
    expected.append(average_precision_score(labels[20:, 4], scores[20:, 4]))
    found = update(AveragePrecision(), (scores[:17], labels[:17]), (scores[17:], labels[17:]))
    assert found == pytest.approx(np.mean(expected))
    assert np.isnan(update(AveragePrecision(), (scores, torch.zeros(50, 5))))


def test_macro_f1():
    from sklearn.metrics import accuracy_score, f1_score

    torch.manual_seed(0)
    logits, classes = torch.randn(60, 6), torch.randint(4, (60,))
    logits[:, 5] = -9  # neither predicted nor there
    classes[:10] = -1
    parts = (logits[:30], classes[:30]), (logits[30:], classes[30:])
    guesses = logits.argmax(-1)[10:]
    expected = f1_score(classes[10:], guesses, average="macro", zero_division=0)
    assert update(MacroF1(6), *parts) == pytest.approx(expected)
    assert update(Accuracy(6), *parts) == pytest.approx(accuracy_score(classes[10:], guesses))


def test_absolute_error():
    predictions, targets = torch.randn(9, 3), torch.randn(9, 3)
    targets[2, 1] = torch.nan
    errors = (predictions - targets).abs()
    found = update(MeanAbsoluteError(), (predictions[:4], targets[:4]), (predictions[4:], targets[4:]))
    assert found == pytest.approx(float(errors[~errors.isnan()].mean()))


@pytest.mark.parametrize("mixer", MIXERS)
def test_any_model_trains(tmp_path, data, mixer):
    recipe = replace(TINY, data=data, mixer=mixer, walks=3, eigenvectors=2)
    run = Run(tmp_path / "run", "graph/tiny", recipe, CPU)
    result = train(run)
    assert np.isfinite(result["metrics"]["mae"])
    model = ChimeraForGraphs.from_pretrained(run.folder / "model").eval()
    assert model.config.mixer == mixer
    assert model.config.label_std is not None


@pytest.mark.parametrize(
    ("changes", "metric"),
    [
        ({"targets": "count", "problem": "single_label_classification"}, "f1"),
        ({"targets": "has, has", "problem": "multi_label_classification"}, "ap"),
        ({"resolvent": "neumann", "terms": 4}, "mae"),
        ({"resolvent": "dag", "local": "gated_gcn"}, "mae"),
    ],
)
def test_any_problem_trains(tmp_path, data, changes, metric):
    recipe = replace(TINY, data=data, export="best", **changes)
    result = train(Run(tmp_path / "run", "graph/tiny", recipe, CPU))
    assert result["metrics"][metric] >= 0
    assert create_task(recipe).monitor == metric


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_nothing(tmp_path, data, workers):
    results = [
        train(Run(tmp_path / f"run{n}", "graph/tiny", replace(TINY, data=data), replace(CPU, workers=n)))["metrics"]
        for n in (0, workers)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("mixer", ["exphormer", "graph_mamba", "gmn", "neural_walker"])
def test_random_components_survive_an_interruption(tmp_path, data, mixer):
    """Resumed from its first checkpoint, a run ends with the same bits."""
    recipe = replace(TINY, data=data, mixer=mixer, walk_length=8)
    weights = []
    for name in ("whole", "resumed"):
        run = Run(tmp_path / name, "graph/tiny", recipe, replace(CPU, checkpoint_every=1))
        train(run)
        if name == "resumed":
            first, _ = checkpoints(run.checkpoints)
            (run.folder / "result.json").unlink()
            torch.rand(3)
            train(run, first)
        weights.append((run.model / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("mixer", MIXERS)
def test_parameters_match(data, mixer):
    recipe = match_parameters(replace(TINY, data=data, mixer=mixer), 100_000)
    assert abs(count_parameters(recipe) / 100_000 - 1) <= 0.03
    assert recipe.mixer == mixer


def test_the_kind_is_known_and_bad_settings_are_refused(data):
    assert recipe_class("graph") is GraphRecipe
    with pytest.raises(ValueError, match="mixer must be one of chimera, gcn, gcn_plus, gine, gated_gcn, gps"):
        GraphRecipe(epochs=1, mixer="mlp")
    with pytest.raises(ValueError, match="has no validation part; hold out a part with --validation"):
        create_task(replace(TINY, data=data, part="validation")).test_samples()


@pytest.fixture
def finished(tmp_path, data):
    run = Run(tmp_path / "run", "graph/tiny", replace(TINY, data=data, validation=0.0), CPU)
    train(run)
    return run


def test_evaluation_on_other_data_keeps_the_runs_mean(finished, tmp_path):
    """Labels that are larger by 100 are missed by 100; all of them are looked at."""
    for name, shift in (("near", 0.01), ("shifted", 100)):
        rows = [f"{s},{s.count('O') + 0.1 * len(s) + shift}" for s in MOLECULES]
        (tmp_path / f"{name}.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    near, shifted = (
        evaluate(finished, replace(finished.recipe, data=str(tmp_path / f"{name}.csv")), latest_checkpoint(finished))
        for name in ("near", "shifted")
    )
    assert near.samples == shifted.samples == len(MOLECULES)
    assert near.metrics["mae"] < 3
    assert abs(shifted.metrics["mae"] - 100) < 3
    own = evaluate(finished, finished.recipe, latest_checkpoint(finished))
    assert (own.samples, own.evaluated_on) == (len(MOLECULES) // 5, "test data")


def test_one_molecule_can_be_evaluated_and_other_targets_are_refused(finished, tmp_path):
    (tmp_path / "one.csv").write_text("smiles,y,z\nCCO,1.2,3\n")
    recipe = replace(finished.recipe, data=str(tmp_path / "one.csv"))
    assert evaluate(finished, recipe, latest_checkpoint(finished))[1:] == (1, recipe.data, 4)
    with pytest.raises(ValueError, match=r"does not fit the run: num_labels of its graphs is 2, and 1 of those"):
        evaluate(finished, replace(recipe, targets="y,z"), latest_checkpoint(finished))


def test_data_that_were_moved_are_known_again_and_those_that_changed_are_refused(finished, data, tmp_path):
    from pathlib import Path

    moved = Path(data).rename(tmp_path / "moved.csv")
    found = evaluate(finished, replace(finished.recipe, data=str(moved)), latest_checkpoint(finished))
    assert (found.samples, found.evaluated_on) == (len(MOLECULES) // 5, "test data")
    header, *rows = moved.read_text().splitlines()
    Path(data).write_text("\n".join([header, *rows[::-1]]) + "\n")
    with pytest.raises(ValueError, match="have changed since the run began, and some of the test data may have been"):
        evaluate(finished, finished.recipe, latest_checkpoint(finished))


def test_fewer_classes_can_be_evaluated_and_other_graphs_are_refused(tmp_path, data):
    recipe = replace(TINY, data=data, targets="count", problem="single_label_classification", validation=0.0)
    run = Run(tmp_path / "run", "graph/tiny", recipe, CPU)
    train(run)
    few = tmp_path / "few.csv"
    few.write_text("smiles,count\nCC,0\nCCO,1\nCCC,0\n")
    found = evaluate(run, replace(recipe, data=str(few)), latest_checkpoint(run))
    assert found.samples == 3
    with pytest.raises(ValueError, match="rings:1-4 does not fit the run: node_features of its graphs is"):
        evaluate(run, replace(recipe, data="rings:1-4"), latest_checkpoint(run))


def test_the_squared_error_is_minimized_and_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("chimera_lab.data.properties.COUNTS", {"train": 8, "val": 2, "test": 4})
    recipe = GraphRecipe(data="properties:distance", mixer="gine", loss="squared", hidden_size=8, epochs=1)
    task = create_task(recipe)
    assert (task.monitor, task.larger_is_better) == ("log10_mse", False)
    samples, model = task.test_samples(), task.build_model(recipe).eval()
    output = task.step(model, samples.collate([samples.sample(k) for k in range(4)]))
    error = (output.predictions - output.targets).square().mean()
    assert output.loss.item() == pytest.approx(error.item() / task.facts["label_std"][0] ** 2, rel=1e-4)
    metric = task.metrics()["log10_mse"]
    metric.update(output.predictions, output.targets)
    assert metric.compute().item() == pytest.approx(error.log10().item(), rel=1e-4)
