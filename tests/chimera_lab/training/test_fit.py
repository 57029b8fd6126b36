"""Runs of a tiny recipe: repeatable bitwise, unharmed by kills, the same on two processes; trusted checkpoints."""

import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from dataclasses import replace

import pytest
import torch

from chimera_lab.training import checkpoints
from chimera_lab.training.fit import evaluate, latest_checkpoint, train
from chimera_lab.training.kinds import create_task
from chimera_lab.training.records import read_table
from chimera_lab.training.run import open_run
from chimera_lab.training.stopping import Diverged, Interrupted
from tests.chimera_lab.training.tiny import CPU, TINY, make_run, same_tables, train_in_processes, what_remains


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run left alone."""
    run = make_run(tmp_path_factory.mktemp("runs") / "finished")
    train(run)
    return run


def test_the_model_card_has_all_settings_that_differ_from_the_defaults(finished):
    text = (finished.model / "README.md").read_text(encoding="utf-8")
    assert "`digits`, by `chimera train` with the recipe `image/tiny`." in text
    for line in ("data: digits", "hidden_size: 16", "epochs: 3", "mixup: 0.3"):
        assert f"\n    {line}\n" in text
    assert "seed:" not in text  # its default


# A run


def test_a_finished_run_has_everything(finished):
    names = {path.name for path in finished.folder.iterdir()}
    files = {
        "config.yaml",
        "about",
        "metrics.csv",
        "steps.csv",
        "tensorboard",
        "checkpoints",
        "curves.png",
        "model",
        "result.json",
    }
    assert names == files
    result = json.loads((finished.folder / "result.json").read_text())
    assert result == finished.result
    assert (result["steps"], result["model"], result["evaluated_on"]) == (18, "ema", "test")
    rows, steps = read_table(finished.folder / "metrics.csv"), read_table(finished.folder / "steps.csv")
    assert [row["step"] for row in rows] == ["6", "12", "18"]
    assert [row["step"] for row in steps] == [str(step) for step in range(1, 19)]
    wanted = {"step", "epoch", "train_loss", "train_top1"}
    assert set(rows[0]) == wanted | {f"test_{n}{e}" for n in ("loss", "top1", "top5") for e in ("", "_ema")}
    assert float(rows[2]["test_top1_ema"]) == result["metrics"]["top1_ema"]
    mean = sum(float(row["loss"]) for row in steps[:6]) / 6
    assert mean == pytest.approx(float(rows[0]["train_loss"]), rel=1e-6)
    assert [path.name for path in checkpoints.checkpoints(finished.checkpoints)][-1] == "step-000000018.ckpt"
    assert len(checkpoints.checkpoints(finished.checkpoints)) == checkpoints.KEPT
    assert open_run(finished.folder) == finished
    board = next((finished.folder / "tensorboard").iterdir())
    assert board.stat().st_size > 1000


def test_the_model_is_loaded_by_its_users_and_scores_as_the_run_said(finished):
    from transformers import AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(finished.model).eval()
    samples = create_task(TINY).test_samples()
    batch = samples.collate([samples.sample(index) for index in range(len(samples))])
    with torch.no_grad():
        found = model(pixel_values=batch["pixel_values"]).logits.argmax(-1)
    accuracy = (found == batch["labels"]).float().mean().item()
    assert accuracy == pytest.approx(finished.result["metrics"]["top1_ema"], abs=1e-6)
    assert model.config.id2label[3] == "3"


def test_evaluation_repeats_the_last_metrics_and_takes_other_sizes(finished):
    checkpoint = latest_checkpoint(finished)
    same = evaluate(finished, finished.recipe, checkpoint)
    assert same == (pytest.approx(finished.result["metrics"], abs=1e-6), 449, "test data", finished.result["steps"])
    twice = evaluate(finished, replace(finished.recipe, image_size=16), checkpoint).metrics
    assert twice.keys() == finished.result["metrics"].keys()
    assert twice["loss"] != finished.result["metrics"]["loss"]


def test_a_seed_fixes_every_bit(finished, tmp_path):
    again = make_run(tmp_path / "again", replace(CPU, workers=1))
    train(again)
    mine, other = what_remains(again), what_remains(finished)
    for files in (mine, other):
        del files["config.yaml"]  # workers differ
    assert mine == other
    seed = make_run(tmp_path / "seed", seed=1)
    train(seed)
    assert what_remains(seed)["model/model.safetensors"] != mine["model/model.safetensors"]


def test_killed_at_any_moment_and_resumed_it_is_as_if_nothing_had_happened(finished, tmp_path):
    chance = random.Random(os.getpid())
    run = make_run(tmp_path / "killed", replace(CPU, checkpoint_every=1))
    fork = multiprocessing.get_context("fork")
    for _ in range(3):  # further kills, then the end
        process = fork.Process(target=_train_quietly, args=(run, latest_checkpoint(run)))
        process.start()
        step, patience = _step(run) + chance.randrange(1, 5), time.monotonic() + 60
        while _step(run) < step and time.monotonic() < patience and process.is_alive():
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.join()
    assert run.result is None
    assert 3 <= _step(run) < 18
    train(run, latest_checkpoint(run))
    mine, other = what_remains(run), what_remains(finished)
    for files in (mine, other):
        del files["config.yaml"]  # checkpoint_every differs
    assert mine == other


def test_killed_between_the_last_checkpoint_and_the_result(two_checkpoints, finished):
    import shutil

    run, _, last = two_checkpoints
    shutil.rmtree(run.model)
    result = train(run, last)
    assert {**result, "seconds": 0} == {**finished.result, "seconds": 0}
    assert what_remains(run) == what_remains(finished)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_sample_stops_the_run_with_one_sentence(tmp_path, monkeypatch, workers):
    from chimera_lab.data.image import Images

    def refuse(self, index):
        raise ValueError(f"cannot read the image {index}.png")

    run = make_run(tmp_path / "run", replace(CPU, workers=workers))
    monkeypatch.setattr(Images, "sample", refuse)
    with pytest.raises(ValueError, match=r"^cannot read the image \d+\.png$"):
        train(run)


def test_mixed_precision_trains(tmp_path):
    run = make_run(tmp_path / "run", replace(CPU, precision="bf16"), epochs=1, train_limit=32)
    result = train(run)
    assert 0 < result["metrics"]["loss"] < 5
    for accelerator in ("cpu", "auto"):
        with pytest.raises(ValueError, match="precision 16 needs a GPU"):
            train(replace(run, runtime=replace(CPU, precision="16", accelerator=accelerator)))


def _train_quietly(run, checkpoint):
    with open(os.devnull, "w") as sys.stderr:
        train(run, checkpoint)


def _step(run):
    found = latest_checkpoint(run)
    return 0 if found is None else checkpoints.step_of(found)


@pytest.mark.parametrize(("signals", "where", "stopped"), [
    ((signal.SIGINT,), "training_step", 1), ((signal.SIGTERM,), "training_step", 1),
    ((signal.SIGINT,), "validation_step", 6), ((signal.SIGTERM,), "validation_step", 6),
])  # fmt: skip
def test_an_interruption_leaves_a_run_to_resume(finished, tmp_path, signals, where, stopped):
    run = make_run(tmp_path / "stopped")
    message = rf"stopped after step {stopped} of 18; continue with: chimera train --resume {run.folder}"
    with pytest.raises(Interrupted, match=message):
        _interrupt(run, where, signals)
    assert _step(run) == stopped
    train(run, latest_checkpoint(run))
    assert what_remains(run) == what_remains(finished)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interruption_stops_at_once(tmp_path, second):
    run = make_run(tmp_path / "stopped")
    message = rf"stopped at once; continue from the last checkpoint with: chimera train --resume {run.folder}"
    with pytest.raises(Interrupted, match=message):
        _interrupt(run, "training_step", (signal.SIGINT, second))
    assert _step(run) == 0


def test_an_evaluation_can_be_interrupted(finished):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="interrupted"):
        _interrupt(finished, "validation_step", (signal.SIGTERM,), evaluate_last)
    assert signal.getsignal(signal.SIGTERM) == before


def evaluate_last(run):
    return evaluate(run, run.recipe, latest_checkpoint(run))


def _interrupt(run, where, signals, work=train):
    """Signals in the middle of the first step of a kind."""
    from chimera_lab.training.module import TrainingModule

    step = getattr(TrainingModule, where)

    def interrupted_step(self, batch, batch_idx):
        if batch_idx == 0:
            for number in signals:
                os.kill(os.getpid(), number)
        return step(self, batch, batch_idx)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingModule, where, interrupted_step)
        work(run)


# Divergence


def _spoil(patch, where, step, value=float("nan")):
    """Let the loss, or the weights, be ``value`` from a step on."""
    from chimera_lab.training.module import TrainingModule

    true_step, true_update = TrainingModule.training_step, TrainingModule.optimizer_step

    def training_step(self, batch, batch_idx):
        loss = true_step(self, batch, batch_idx)
        if where == "loss" and self.steps_done + 1 >= step:
            self.step_losses[-1] = self.step_losses[-1] * value
            return loss * value
        return loss

    def optimizer_step(self, *args, **options):
        true_update(self, *args, **options)
        if where == "weight" and self.steps_done >= step:
            with torch.no_grad():
                next(self.model.parameters()).view(-1)[0] = value

    patch.setattr(TrainingModule, "training_step", training_step)
    patch.setattr(TrainingModule, "optimizer_step", optimizer_step)


@pytest.mark.parametrize(
    ("where", "step", "value", "last"),
    [("loss", 8, float("nan"), 7), ("loss", 6, float("inf"), 5), ("weight", 9, float("nan"), 8),
     ("weight", 6, float("inf"), 5)],
)  # fmt: skip
def test_training_that_diverges_stops_and_keeps_the_last_good_checkpoint(finished, tmp_path, where, step, value, last):
    run = make_run(tmp_path / "run", replace(CPU, checkpoint_every=1))
    message = rf"{where} became NaN or infinite in step {step} of 18; the last good checkpoint is .*{last}\.ckpt; try"
    with pytest.MonkeyPatch.context() as patch:
        _spoil(patch, where, step, value)
        with pytest.raises(Diverged, match=message):
            train(run)
    assert _step(run) == last
    assert run.result is None
    assert (run.divergence["steps"], run.divergence["metrics"]) == (step, {})
    assert not run.model.exists()
    assert all(float(row["loss"]) > 0 for row in read_table(run.folder / "steps.csv"))
    train(run, latest_checkpoint(run))
    assert run.divergence is None
    mine, other = what_remains(run), what_remains(finished)
    for files in (mine, other):
        del files["config.yaml"]  # checkpoint_every differs
    assert mine == other


def test_a_rate_that_is_far_too_high_is_a_sentence_and_no_traceback(tmp_path, monkeypatch, capsys):
    from chimera_lab import cli

    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "run", lr=1e30, warmup_epochs=0.0, clip=0.0)
    assert cli.main(["train", "--resume", "run"]) == 2
    err = capsys.readouterr().err
    assert "chimera train: error: training diverged: the loss became NaN or infinite in step 2 of 18; " in err
    assert "there is no checkpoint yet; try again with a smaller lr (it is 1e+30)" in err
    assert json.loads((run.folder / "diverged.json").read_text())["steps"] == 2


def test_a_metric_that_is_not_defined_is_null_in_json_and_never_the_best(tmp_path):
    from chimera_lab.training.files import read_json, write_json
    from chimera_lab.training.module import TrainingModule

    def refuse(token):
        raise AssertionError(f"{token} is no JSON")

    run = make_run(tmp_path / "run")
    write_json(run.folder / "result.json", {"metrics": {"top1": float("nan"), "loss": float("-inf")}, "steps": (1, 2)})
    plain = json.loads((run.folder / "result.json").read_text(), parse_constant=refuse)
    assert plain == {"metrics": {"top1": None, "loss": None}, "steps": [1, 2]}
    assert read_json(run.folder / "result.json", dict, "") == plain
    assert all(value != value for value in run.result["metrics"].values())
    module = TrainingModule(create_task(TINY), replace(TINY, ema=0.0), None)
    for value, winner in ((float("nan"), "raw"), (float("nan"), None), (0.1, "raw"), (float("nan"), None)):
        module.results = {"top1": value}
        assert module.improved() == winner
    assert module.best == 0.1


def test_validation_data_are_of_the_training_data_and_choose_the_best(tmp_path):
    run = make_run(tmp_path / "run", validation=0.1, export="best", epochs=2, train_limit=64)
    result = train(run)
    assert (result["evaluated_on"], result["model"]) == ("validation", "best")
    rows = read_table(run.folder / "metrics.csv")
    both = [float(row[f"validation_top1{e}"]) for row in rows for e in ("", "_ema")]
    assert result["best"] == max(both)
    assert (run.model / "model.safetensors").exists()


def test_two_processes_give_the_losses_of_one(tmp_path):
    changes = {"drop_path": 0.0, "mixup": 0.0, "cutmix": 0.0, "epochs": 2, "train_limit": 128, "micro_batch": 8}
    one = make_run(tmp_path / "one", **changes)
    train(one)
    two = make_run(tmp_path / "two", replace(CPU, devices=2, strategy="ddp"), **changes)
    train_in_processes(two, tmp_path / "program.py")
    same_tables(one, two, abs=1e-5)


# Checkpoints


@pytest.fixture
def two_checkpoints(finished, tmp_path):
    """A copy of the finished run's folder that is not finished."""
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(finished.folder, folder)
    (folder / "result.json").unlink()
    run = open_run(folder)
    return run, *checkpoints.checkpoints(run.checkpoints)


def test_a_run_without_what_it_knew_of_its_data_is_refused(two_checkpoints):
    import shutil

    run, _, last = two_checkpoints
    shutil.rmtree(run.about)
    for work in (lambda: train(run, last), lambda: evaluate(run, run.recipe, last)):
        with pytest.raises(ValueError, match=r"is incomplete: .*about/data is not there; restore it, or train again"):
            work()


@pytest.mark.parametrize("harm", ["truncated", "flipped", "empty", "text", "pickle"])
def test_a_broken_checkpoint_is_refused_and_the_one_before_named(two_checkpoints, harm):
    run, before, last = two_checkpoints
    content = bytearray(last.read_bytes())
    if harm == "flipped":
        content[len(content) // 2] ^= 1
    broken = {"truncated": content[:-1000], "flipped": content, "empty": b"", "text": b"not a checkpoint at all"}
    if harm == "pickle":
        torch.save({"state_dict": {}}, last)
    else:
        last.write_bytes(broken[harm])
    with pytest.raises(
        ValueError, match=f"{before.name} is intact, continue from it with: chimera train --resume {before}"
    ):
        train(run, last)
    train(run, before)
    assert last.exists()  # written again
    checkpoints.load(last, run.recipe)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("shape", r"does not fit the run: .* has the shape \(1,\) there and \(.+\) in the model"),
        ("missing", r"does not fit the run: .* is missing"),
        ("extra", r"does not fit the run: it holds other, which the model does not have"),
        ("nan", r"does not fit the run: .* is not finite"),
        ("moments", r"does not fit the run: the optimiser's state has other sizes than the model"),
        ("optimizer_states", r"is incomplete: it has no optimizer_states"),
        ("chimera", r"is not a checkpoint of a Chimera run"),
    ],
)
def test_a_misshapen_checkpoint_is_refused_and_the_one_before_named(two_checkpoints, harm, message):
    run, before, last = two_checkpoints
    content = torch.load(last, weights_only=True)
    state = content["state_dict"]
    name = next(name for name in state if state[name].ndim > 1)
    if harm in content:
        del content[harm]
    elif harm == "moments":
        content["optimizer_states"][0]["state"][0]["exp_avg"] = torch.zeros(1)
    elif harm == "missing":
        del state[name]
    elif harm == "extra":
        state["other"] = state[name]
    else:
        state[name] = torch.zeros(1) if harm == "shape" else torch.full_like(state[name], torch.nan)
    torch.save(content, last)
    advice = f"{before.name} is intact, continue from it with: chimera train --resume {before}"
    with pytest.raises(ValueError, match=rf"{last.name} {message}; {advice}"):
        train(run, last)
    if harm not in ("moments", "optimizer_states"):
        with pytest.raises(ValueError, match=message):
            evaluate(run, run.recipe, last)


@pytest.mark.parametrize("content", ["", "not: [yaml", "name: x", "- a list", "\0", b"\xff\xfe"])
def test_a_damaged_config_is_one_sentence(two_checkpoints, content):
    run, *_ = two_checkpoints
    (run.folder / "config.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"^.*config.yaml cannot be read: .*; restore it, or train again$") as error:
        open_run(run.folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.json", b"{", r"result.json is damaged: it is not JSON .*; delete it and continue with chimera train"),
        ("result.json", b"\xff", r"result.json is damaged: it is not JSON"),
        ("result.json", b"[1]", r"result.json is damaged: it holds a list, expected a dict"),
        ("result.json", b"{}", r"result.json is damaged: it has no metrics"),
        ("about/classes.json", b'["0", ', r"classes.json is damaged: it is not JSON .*; restore it, or train again"),
        ("about/classes.json", b"{}", r"classes.json is damaged: it holds a dict, expected a list"),
        ("about/classes.json", None, r"is incomplete: .*classes.json is not there; restore it, or train again"),
        ("about/data", b"\xff\xfe", r"the data, digits, have changed since the run began"),
        ("metrics.csv", b"step,loss\r\nsix,1\r\n", r"metrics.csv is damaged \(invalid literal .*delete it and lose"),
        ("metrics.csv", b"loss\r\n1\r\n", r"metrics.csv is damaged \(it has no column step\)"),
        ("steps.csv", b"step,loss\n1,\xff\n", r"steps.csv is damaged"),
        ("steps.csv", b"step,loss\n1,a\n", r"steps.csv is damaged"),
    ],
)
def test_a_damaged_file_of_a_run_is_one_sentence(two_checkpoints, name, content, message):
    run, before, last = two_checkpoints
    path = run.folder / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        run.result or train(run, before if name.endswith(".csv") else last)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["folder", "nowhere", "file"])
def test_a_link_in_place_of_the_model_is_replaced_and_what_it_leads_to_is_left(two_checkpoints, finished, kind):
    import shutil

    run, _, last = two_checkpoints
    elsewhere = run.folder.parent / "elsewhere"
    shutil.rmtree(run.model)
    if kind == "folder":
        elsewhere.mkdir()
        (elsewhere / "mine").touch()
    if kind == "file":
        run.model.touch()
    else:
        run.model.symlink_to(elsewhere)
    train(run, last)
    assert run.model.is_dir()
    assert not run.model.is_symlink()
    assert what_remains(run) == what_remains(finished)
    assert elsewhere.exists() == (kind == "folder")
    assert kind != "folder" or [path.name for path in elsewhere.iterdir()] == ["mine"]


def test_a_run_that_was_killed_before_its_config_begins_again(tmp_path):
    run = make_run(tmp_path / "run", epochs=1, train_limit=32)
    (run.folder / "config.yaml").rename(run.folder / "config.yaml.part")
    (run.folder / ".lock").touch()
    assert train(run)["steps"] == 1


def test_a_checkpoint_of_another_recipe_is_refused(two_checkpoints):
    run, _, last = two_checkpoints
    with pytest.raises(
        ValueError, match=r"is of another recipe: lr is 0.001 there and 0.002 in this run's config.yaml"
    ):
        checkpoints.load(last, replace(run.recipe, lr=2e-3))
    with pytest.raises(ValueError, match="no earlier one is intact"):
        checkpoints.load(last, replace(run.recipe, lr=2e-3))
    with pytest.raises(ValueError, match="there is no checkpoint"):
        checkpoints.load(last.with_name("step-000000099.ckpt"), run.recipe)


def test_a_full_disk_is_one_sentence_and_harms_nothing(tmp_path):
    path = tmp_path / "step-000000001.ckpt"
    io = checkpoints.DurableCheckpointIO()
    io.save_checkpoint({"x": torch.zeros(10)}, path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(OSError, match=r"cannot write .*step-000000001.ckpt: .*make room"):
            io.save_checkpoint({"x": torch.zeros(1_000_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# Folders


def test_folders_that_are_taken_are_refused(finished, tmp_path):
    with pytest.raises(ValueError, match="holds a run already: continue it with chimera train --resume"):
        finished.create()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ValueError, match="exists and is not a run"):
        make_run(tmp_path / "full")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot make .* choose another folder with --out"):
        make_run(tmp_path / "file" / "run")
    with pytest.raises(ValueError, match=r"is not a run: it has no config.yaml"):
        open_run(tmp_path)
    (tmp_path / "config.yaml").write_text("recipe: [")
    with pytest.raises(ValueError, match=r"config.yaml cannot be read"):
        open_run(tmp_path)
