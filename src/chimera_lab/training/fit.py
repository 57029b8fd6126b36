"""Training and evaluating a run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, Strategy
from lightning.pytorch.utilities.exceptions import SIGTERMException

from chimera_lab.data.samples import Samples
from chimera_lab.training import checkpoints
from chimera_lab.training.bookkeeper import (
    Bookkeeper,
    Diverged,
    Interrupted,
    StopSignals,
    export,
    fingerprint,
    remember,
)
from chimera_lab.training.course import Course, Share
from chimera_lab.training.files import write_json
from chimera_lab.training.loaders import RunData, evaluation_batches, loader, train_and_evaluation
from chimera_lab.training.lock import held, is_first_process
from chimera_lab.training.memory import check_memory
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.progress import Bar
from chimera_lab.training.recipe import Machine, Recipe
from chimera_lab.training.run import Run
from chimera_lab.training.task import Task

_PRECISION: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def latest_checkpoint(run: Run) -> Path | None:
    """The newest checkpoint, if there is one: a run killed before its first begins again."""
    found = checkpoints.checkpoints(run.checkpoints)
    return found[-1] if found else None


def train(run: Run, checkpoint: Path | None = None, begun: Callable[[], None] = lambda: None) -> dict[str, Any] | None:
    """Train to the end, from the beginning or from a checkpoint; then write model/ and result.json.

    Args:
        run: its folder is locked until the end, and made when everything else is in place.
        checkpoint: where to go on from.
        begun: is called when the folder is there, and training begins.

    Returns:
        What is in result.json; nothing in processes other than the first.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM.
        Diverged: the loss or the weights are no longer finite; diverged.json says when.
    """
    with held(run.folder):
        return _train(run, checkpoint, begun)


def _train(run: Run, checkpoint: Path | None, begun: Callable[[], None]) -> dict[str, Any] | None:
    recipe, machine, step = run.recipe, run.machine, 0
    state: dict[str, Any] = {}
    task = recipe.task()
    if checkpoint is not None:  # without one a run begins again, with its data as they are
        state = checkpoints.load(checkpoint, recipe)
        step = state["chimera"]["step"]
        if run.recall(task) != fingerprint(task):
            raise ValueError(f"the data, {recipe.data}, have changed since the run began: restore them, or begin anew")
    train_on, evaluate_on, evaluated_on = train_and_evaluation(task, recipe)
    course = Course.of(recipe, len(train_on))
    _check_memory(task, run, train_on, evaluate_on)
    module = TrainingModule(task, recipe, course)
    if checkpoint is not None:
        checkpoints.check_fits(checkpoint, state, module)
    bookkeeper = Bookkeeper(run, evaluated_on)
    with _quiet_lightning(), _plain_errors(), StopSignals(bookkeeper.ask_to_stop) as signals:
        callbacks: list[Callback] = [signals, bookkeeper, Bar(evaluated_on)]
        trainer = _trainer(recipe, machine, callbacks, max_epochs=course.laps_left(step))
        if is_first_process():
            _prepare(run, module, anew=checkpoint is None)
        begun()
        data = RunData(train_on, evaluate_on, recipe, course, machine.workers)
        try:
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint)
        except Diverged:
            if trainer.is_global_zero:
                write_json(run.folder / "diverged.json", _summary(run, module, evaluated_on, bookkeeper))
            raise
    return _finish(run, module, evaluated_on, bookkeeper) if trainer.is_global_zero else None


def _check_memory(task: Task, run: Run, train_on: Samples, evaluate_on: Samples) -> None:
    recipe, machine = run.recipe, run.machine
    device = -(-recipe.batch_size // ((machine.devices or 1) * machine.nodes))
    check_memory(task, recipe, machine, min(recipe.micro_batch or device, device, len(train_on)))
    check_memory(task, recipe, machine, min(recipe.eval_batch, len(evaluate_on)), train=False)


def _prepare(run: Run, module: TrainingModule, anew: bool) -> None:
    """Make the folder of a run ready for training."""
    if not run.exists:
        run.create()
    run.checkpoints.mkdir(exist_ok=True)
    (run.folder / "diverged.json").unlink(missing_ok=True)
    if anew:
        remember(run, module)


class Evaluation(NamedTuple):
    """Metrics, with the weights as trained and averaged; how many samples of what they were measured on; which step."""

    metrics: dict[str, float]
    samples: int
    evaluated_on: str
    step: int


def evaluate(run: Run, recipe: Recipe, checkpoint: Path) -> Evaluation:
    """Evaluate on the test data; of other data than the run's, on all that are not said to be for training.

    Args:
        run: the run that was trained.
        recipe: its recipe, perhaps with other data.
        checkpoint: which weights.
    """
    state = checkpoints.load(checkpoint, run.recipe)
    task, are_own = recipe.task(), _are_own(run, recipe.data)
    run.recall(task, are_own)
    samples = task.test_samples()
    check_memory(task, run.recipe, run.machine, min(recipe.eval_batch, len(samples)), train=False)
    module = _module_of(run, checkpoint, state, task)
    batches = evaluation_batches(len(samples), recipe.eval_batch, 0, 1)
    with _quiet_lightning(), _plain_errors(), StopSignals(_interrupt) as signals:
        machine = Machine(accelerator=run.machine.accelerator, devices=1, precision=run.machine.precision)
        trainer = _trainer(recipe, machine, [signals])
        trainer.validate(module, loader(samples, batches, recipe.seed, run.machine.workers), verbose=False)
    evaluated_on = f"{task.tested_on} data" if are_own else recipe.data
    return Evaluation(module.results, len(samples), evaluated_on, state["chimera"]["step"])


def _are_own(run: Run, data: str) -> bool:
    """Whether data are those of a run, at their place or at another; if they are and have changed, they are refused."""
    at_their_place = data == run.recipe.data
    task = replace(run.recipe, data=data).task()
    try:
        same = run.recall(task) == fingerprint(task)
    except ValueError:  # too few to be divided, for example
        if at_their_place:
            raise
        return False
    if at_their_place and not same:
        raise ValueError(
            f"the data, {data}, have changed since the run began, and some of the test data may have been trained on: "
            f"restore them, or copy them to another place and name that with --data to evaluate on all of them"
        )
    return same


def _finish(run: Run, module: TrainingModule, evaluated_on: str, bookkeeper: Bookkeeper) -> dict[str, Any]:
    last = checkpoints.checkpoint_path(run.checkpoints, module.course.total)
    if run.recipe.export != "best":
        # From the file, not from memory: several devices may have a part of the weights each.
        state = checkpoints.load(last, run.recipe)
        which = run.recipe.export if module.average is not None else "raw"
        export(run, _module_of(run, last, state, module.task), which)
    else:
        which = "best"
    result = _summary(run, module, evaluated_on, bookkeeper)
    result |= {"metrics": module.results, "model": which, "best": module.best}
    write_json(run.folder / "result.json", result)
    return result


def _summary(run: Run, module: TrainingModule, evaluated_on: str, bookkeeper: Bookkeeper) -> dict[str, Any]:
    """What is known of a run that ended, before its figures."""
    return {
        "recipe": run.name,
        "seed": run.recipe.seed,
        "steps": module.steps_done,
        "parameters": sum(p.numel() for p in module.model.parameters() if p.requires_grad),
        "evaluated_on": evaluated_on,
        "metrics": {},
        "seconds": round(bookkeeper.seconds_so_far(), 1),
    }


def _module_of(run: Run, checkpoint: Path, state: dict[str, Any], task: Task) -> TrainingModule:
    """The module that a checkpoint was made of."""
    course = Course(1, 1, run.recipe.seed, 1, 1)  # nothing will be trained
    module = TrainingModule(task, run.recipe, course)
    checkpoints.check_fits(checkpoint, state, module)
    module.load_state_dict(state["state_dict"])
    return module


def _trainer(recipe: Recipe, machine: Machine, callbacks: list[Callback], max_epochs: int = 1) -> L.Trainer:
    if machine.precision == "16" and (machine.accelerator == "cpu" or not torch.accelerator.is_available()):
        raise ValueError("precision 16 needs a GPU; use bf16 or 32 on a CPU")
    trainer = L.Trainer(
        accelerator=machine.accelerator,
        devices=machine.devices or "auto",
        num_nodes=machine.nodes,
        strategy=_strategy(recipe, machine),
        precision=_PRECISION[machine.precision],
        max_epochs=max_epochs,
        gradient_clip_val=recipe.clip or None,
        callbacks=callbacks,
        plugins=[checkpoints.DurableCheckpointIO()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,
    )
    trainer.accumulate_grad_batches = Share.of(recipe, 0, trainer.world_size).accumulate
    return trainer


def _strategy(recipe: Recipe, machine: Machine) -> str | Strategy:
    if machine.strategy == "fsdp":
        if not torch.cuda.is_available():
            raise ValueError("strategy fsdp needs GPUs; use ddp for several processes on CPUs")
        if recipe.export == "best":
            raise ValueError(
                "export=best needs all weights in one place; use another strategy than fsdp, or export=ema"
            )
        return FSDPStrategy(state_dict_type="full", use_orig_params=True)
    several = machine.strategy == "ddp" or (machine.devices or 1) * machine.nodes > 1
    return DDPStrategy(broadcast_buffers=False) if several else "auto"


def _interrupt() -> None:
    raise Interrupted("interrupted")


@contextmanager
def _plain_errors() -> Generator[None]:
    """A worker's error comes with its whole traceback as the message: keep the sentence."""
    try:
        yield
    except SIGTERMException:  # before our handlers were in place
        raise Interrupted("interrupted") from None
    except ValueError as error:
        if not str(error).startswith("Caught ValueError in DataLoader worker"):
            raise
        raise ValueError(str(error).strip().splitlines()[-1].removeprefix("ValueError: ")) from error


@contextmanager
def _quiet_lightning() -> Generator[None]:
    """Without Lightning's advice on workers and its notes on devices: we say what matters."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*(LeafSpec|pin_memory|lr_scheduler).*")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
