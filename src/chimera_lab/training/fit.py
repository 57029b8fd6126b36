"""Training and evaluating a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch.callbacks import Callback

from chimera_lab.data.samples import Samples
from chimera_lab.training import checkpoints
from chimera_lab.training.callback import RunCallback
from chimera_lab.training.compilation import prepare
from chimera_lab.training.export import export_model, fingerprint, save_metadata, write_model_card
from chimera_lab.training.files import write_json
from chimera_lab.training.kinds import create_task
from chimera_lab.training.loaders import RunData, evaluation_batches, loader, train_and_evaluation
from chimera_lab.training.lock import held, is_first_process
from chimera_lab.training.memory import check_memory
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.progress import ProgressBar
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.run import Run
from chimera_lab.training.schedule import StepSchedule
from chimera_lab.training.stopping import Diverged, Interrupted, StopSignals
from chimera_lab.training.task import Task
from chimera_lab.training.trainer import create_trainer, plain_errors, quiet_lightning


def latest_checkpoint(run: Run) -> Path | None:
    """The newest checkpoint, if there is one."""
    found = checkpoints.checkpoints(run.checkpoints)
    return found[-1] if found else None


def train(
    run: Run, checkpoint: Path | None = None, on_start: Callable[[], None] = lambda: None
) -> dict[str, Any] | None:
    """Train to the end, from the beginning or from a checkpoint; then write model/ and result.json.

    Args:
        run: its folder is locked until the end, and created when everything else is ready.
        checkpoint: the checkpoint to continue from.
        on_start: called when the folder exists and training starts.

    Returns:
        The content of result.json; ``None`` in processes other than the first.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM.
        Diverged: the loss or the weights are no longer finite; diverged.json says when.
    """
    with held(run.folder):
        return _train(run, checkpoint, on_start)


def _train(run: Run, checkpoint: Path | None, on_start: Callable[[], None]) -> dict[str, Any] | None:
    recipe, runtime, step = run.recipe, run.runtime, 0
    state: dict[str, Any] = {}
    task = create_task(recipe)
    if checkpoint is not None:  # without one the run starts again, with the current data
        state = checkpoints.load(checkpoint, recipe)
        step = state["chimera"]["step"]
        if run.load_metadata(task) != fingerprint(task):
            raise ValueError(f"the data, {recipe.data}, have changed since the run began: restore them, or begin anew")
    train_on, evaluate_on, evaluated_on = train_and_evaluation(task, recipe)
    schedule = StepSchedule.of(recipe, len(train_on))
    _check_memory(task, run, train_on, evaluate_on)
    module = TrainingModule(task, recipe, schedule)
    if checkpoint is not None:
        checkpoints.check_fits(checkpoint, state, module)
    prepare(module.model, recipe, runtime)
    callback = RunCallback(run, evaluated_on)
    with quiet_lightning(), plain_errors(), StopSignals(callback.ask_to_stop) as signals:
        callbacks: list[Callback] = [signals, callback, ProgressBar(evaluated_on)]
        trainer = create_trainer(recipe, runtime, callbacks, max_epochs=schedule.intervals_left(step))
        if is_first_process():
            _prepare(run, module, from_scratch=checkpoint is None)
        on_start()
        data = RunData(train_on, evaluate_on, recipe, schedule, runtime.workers)
        try:
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint)
        except Diverged:
            if trainer.is_global_zero:
                write_json(run.folder / "diverged.json", _summary(run, module, evaluated_on, callback))
            raise
        finally:
            _disconnect()
    return _finish(run, module, evaluated_on, callback) if trainer.is_global_zero else None


def _disconnect() -> None:
    """Close the connections between the processes of a run; gloo's threads would abort a process that just exits."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _check_memory(task: Task, run: Run, train_on: Samples, evaluate_on: Samples) -> None:
    recipe, runtime = run.recipe, run.runtime
    device = -(-recipe.batch_size // ((runtime.devices or 1) * runtime.nodes))
    check_memory(task, recipe, runtime, min(recipe.micro_batch or device, device, len(train_on)))
    check_memory(task, recipe, runtime, min(recipe.eval_batch, len(evaluate_on)), train=False)


def _prepare(run: Run, module: TrainingModule, from_scratch: bool) -> None:
    """Prepare the folder of a run for training."""
    if not run.exists:
        run.create()
    run.checkpoints.mkdir(exist_ok=True)
    (run.folder / "diverged.json").unlink(missing_ok=True)
    if from_scratch:
        save_metadata(run, module)


class Evaluation(NamedTuple):
    """Metrics of the trained and the averaged weights, the number and name of the samples, and the step."""

    metrics: dict[str, float]
    samples: int
    evaluated_on: str
    step: int


def evaluate(run: Run, recipe: Recipe, checkpoint: Path) -> Evaluation:
    """Evaluate on the test data of the run, or on all of other data that are not marked as training data.

    Args:
        run: the run that was trained.
        recipe: its recipe, possibly with other data.
        checkpoint: the weights.
    """
    state = checkpoints.load(checkpoint, run.recipe)
    task, is_own_data = create_task(recipe), _is_own_data(run, recipe.data)
    run.load_metadata(task, is_own_data)
    samples = task.test_samples()
    check_memory(task, run.recipe, run.runtime, min(recipe.eval_batch, len(samples)), train=False)
    module = _module_of(run, checkpoint, state, task)
    batches = evaluation_batches(len(samples), recipe.eval_batch, 0, 1)
    with quiet_lightning(), plain_errors(), StopSignals(_interrupt) as signals:
        runtime = RuntimeConfig(accelerator=run.runtime.accelerator, devices=1, precision=run.runtime.precision)
        trainer = create_trainer(recipe, runtime, [signals])
        trainer.validate(module, loader(samples, batches, recipe.seed, run.runtime.workers), verbose=False)
    evaluated_on = f"{task.tested_on} data" if is_own_data else recipe.data
    return Evaluation(module.results, len(samples), evaluated_on, state["chimera"]["step"])


def _is_own_data(run: Run, data: str) -> bool:
    """Whether data are those of a run, possibly at another path; data changed at the same path are refused."""
    same_path = data == run.recipe.data
    task = create_task(replace(run.recipe, data=data))
    try:
        same = run.load_metadata(task) == fingerprint(task)
    except ValueError:  # for example, too few to be split
        if same_path:
            raise
        return False
    if same_path and not same:
        raise ValueError(
            f"the data, {data}, have changed since the run began, and some of the test data may have been trained on: "
            f"restore them, or copy them to another place and name that with --data to evaluate on all of them"
        )
    return same


def _finish(run: Run, module: TrainingModule, evaluated_on: str, callback: RunCallback) -> dict[str, Any]:
    last = checkpoints.checkpoint_path(run.checkpoints, module.schedule.total)
    if run.recipe.export != "best":
        # Load the file: each of several devices may hold only a part of the weights.
        state = checkpoints.load(last, run.recipe)
        which = run.recipe.export if module.average is not None else "raw"
        export_model(run, _module_of(run, last, state, module.task), which)
    else:
        which = "best"
    write_model_card(run, module, which)
    result = _summary(run, module, evaluated_on, callback)
    result |= {"metrics": module.results, "model": which, "best": module.best}
    write_json(run.folder / "result.json", result)
    return result


def _summary(run: Run, module: TrainingModule, evaluated_on: str, callback: RunCallback) -> dict[str, Any]:
    """The entries of result.json and diverged.json that do not depend on the metrics."""
    return {
        "recipe": run.name,
        "seed": run.recipe.seed,
        "steps": module.steps_done,
        "parameters": sum(p.numel() for p in module.model.parameters() if p.requires_grad),
        "evaluated_on": evaluated_on,
        "metrics": {},
        "seconds": round(callback.seconds_so_far(), 1),
    }


def _module_of(run: Run, checkpoint: Path, state: dict[str, Any], task: Task) -> TrainingModule:
    """The module of a checkpoint."""
    schedule = StepSchedule(1, 1, run.recipe.seed, 1, 1)  # not used: nothing is trained
    module = TrainingModule(task, run.recipe, schedule)
    checkpoints.check_fits(checkpoint, state, module)
    module.load_state_dict(state["state_dict"])
    return module


def _interrupt() -> None:
    raise Interrupted("interrupted")
