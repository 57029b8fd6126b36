"""What happens beside the training: records, checkpoints, interruption."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from chimera_lab.data.samples import contents
from chimera_lab.training.checkpoints import best_path, checkpoint_path, checkpoints, prune
from chimera_lab.training.course import learning_rate
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.records import Records
from chimera_lab.training.run import Run
from chimera_lab.training.task import Task

_GO_ON, _SAVE, _STOP, _DIVERGED = 0.0, 1.0, 2.0, 3.0


class Interrupted(Exception):
    """The run was asked to stop, and did so; the message tells how to go on."""


class Diverged(ValueError):
    """The loss or the weights became NaN or infinite; the message says when, and what to try."""


class Bookkeeper(Callback):
    """Writes rows and checkpoints, in this order: what a checkpoint has seen is in the records.

    At the end of a lap there is one checkpoint, after the evaluation, so that a resumed run never repeats or skips one.

    Args:
        run: where to.
        evaluated_on: "test", "validation" or "dev", the prefix of the metrics.
    """

    def __init__(self, run: Run, evaluated_on: str):
        self.run, self.evaluated_on = run, evaluated_on
        self.records: Records | None = None
        self.asked_to_stop = False
        self.last_save = time.monotonic()
        self.seconds, self._since = 0.0, time.monotonic()

    def ask_to_stop(self) -> None:
        """Stop at the end of the step, or of the evaluation; asked once more, stop at once."""
        if self.asked_to_stop:
            raise Interrupted(
                f"stopped at once; continue from the last checkpoint with: chimera train --resume {self.run.folder}"
            )
        self.asked_to_stop = True

    def seconds_so_far(self) -> float:
        """Seconds of training, those before a resumption included."""
        return self.seconds + time.monotonic() - self._since

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds_so_far()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seconds = state_dict["seconds"]

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._since = self.last_save = time.monotonic()
        if trainer.is_global_zero:
            prune(self.run.checkpoints, pl_module.steps_done)
            self.records = Records(self.run.folder, pl_module.steps_done)

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        step, course = pl_module.steps_done, pl_module.course
        wish = self._wish(trainer, step, pl_module.loss_is_finite())
        if wish == _DIVERGED:
            self._diverged(pl_module, "the loss")
        if step % pl_module.recipe.log_every == 0:
            self._add_step(pl_module)
        is_end = step == course.lap_end(step - 1)
        if is_end or wish >= _SAVE:
            self._check_weights(trainer, pl_module)
        if is_end:
            return  # the lap's end is recorded after its evaluation
        if wish >= _SAVE:
            self._save(trainer, pl_module)
        if wish == _STOP:
            self._stop(pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        means = pl_module.lap_means()
        row = {"step": pl_module.steps_done, "epoch": pl_module.steps_done / pl_module.course.steps_per_epoch}
        row |= {f"train_{name}": value for name, value in means.items()}
        row |= {f"{self.evaluated_on}_{name}": value for name, value in pl_module.results.items()}
        if self.records is not None:
            self.records.add_lap(row)
        pl_module.end_lap()
        self._keep_best(trainer, pl_module)
        self._save(trainer, pl_module)
        if self._wish(trainer, 0) == _STOP and pl_module.steps_done < pl_module.course.total:
            self._stop(pl_module)

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._close()

    def on_exception(self, trainer: L.Trainer, pl_module: Any, exception: BaseException) -> None:
        with suppress(OSError):  # if the disk is full, that was said already
            self._close()

    def _close(self) -> None:
        if self.records is not None:
            records, self.records = self.records, None
            records.close()

    def _add_step(self, module: TrainingModule) -> None:
        loss = module.step_loss()
        if self.records is not None:
            rate = learning_rate(module.recipe, module.course, module.steps_done - 1)
            self.records.add_step({"step": module.steps_done, "lr": rate, "loss": loss})

    def _wish(self, trainer: L.Trainer, step: int, is_finite: bool = True) -> float:
        """What to do after a step; all processes agree, though their clocks, signals and losses differ."""
        every, minutes = self.run.machine.checkpoint_every, self.run.machine.checkpoint_minutes
        due = bool(every and step % every == 0) or time.monotonic() - self.last_save > 60 * minutes
        wish = _DIVERGED if not is_finite else _STOP if self.asked_to_stop else _SAVE if due else _GO_ON
        return _largest(trainer, wish)

    def _check_weights(self, trainer: L.Trainer, module: TrainingModule) -> None:
        """Weights that are not finite are neither recorded nor saved. To be called on all devices."""
        if _largest(trainer, float(not module.weights_are_finite())):
            self._diverged(module, "a weight")

    def _diverged(self, module: TrainingModule, what: str) -> None:
        recipe, found = module.recipe, checkpoints(self.run.checkpoints)
        last = f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"
        raise Diverged(
            f"training diverged: {what} became NaN or infinite in step {module.steps_done} of {module.course.total}; "
            f"{last}; try again with a smaller lr (it is {recipe.lr:g}), a longer warm-up or a smaller clip (it is "
            f"{recipe.clip:g}{'' if recipe.clip else ', none'}), and look for extreme values in the data"
        )

    def _keep_best(self, trainer: L.Trainer, module: TrainingModule) -> None:
        if module.recipe.export != "best" or (which := module.improved()) is None:
            return
        trainer.save_checkpoint(best_path(self.run.checkpoints))
        if trainer.is_global_zero:
            export(self.run, module, which)

    def _save(self, trainer: L.Trainer, module: TrainingModule) -> None:
        if self.records is not None:
            self.records.sync()
        trainer.save_checkpoint(checkpoint_path(self.run.checkpoints, module.steps_done))
        if trainer.is_global_zero:
            prune(self.run.checkpoints, module.steps_done)
        self.last_save = time.monotonic()

    def _stop(self, module: TrainingModule) -> None:
        raise Interrupted(
            f"stopped after step {module.steps_done} of {module.course.total}; continue with: "
            f"chimera train --resume {self.run.folder}"
        )


def _largest(trainer: L.Trainer, value: float) -> float:
    """The largest of all processes' values. To be called on all of them."""
    if trainer.world_size == 1:
        return value
    return float(trainer.strategy.reduce(torch.tensor(value, device=trainer.strategy.root_device), reduce_op="max"))


def export(run: Run, module: TrainingModule, which: str) -> None:
    """Write model/ with the weights of one kind."""
    _write_folder(run.model, lambda folder: module.task.save(module.weights()[which], folder))


def remember(run: Run, module: TrainingModule) -> None:
    """Write about/, from which the run is continued and evaluated."""

    def write(folder: Path) -> None:
        module.task.remember(module.model, folder)
        (folder / "data").write_text(fingerprint(module.task), encoding="utf-8")

    _write_folder(run.about, write)


def fingerprint(task: Task) -> str:
    """Equal for equal data."""
    digest = blake2b(digest_size=16)
    for part in task.parts():
        for content in contents(part):
            digest.update(content)
    return digest.hexdigest()


def _write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """A folder as ``write`` fills it, whole or not at all."""
    aside = folder.with_name(f"{folder.name}.part")
    _remove(aside)
    aside.mkdir()
    write(aside)
    _remove(folder)
    aside.rename(folder)


def _remove(path: Path) -> None:
    """Remove a folder or a file, if it is there; of a link, the link and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class StopSignals(Callback):
    """Within, Ctrl-C and SIGTERM call ``ask``.

    Lightning puts a handler of its own before it, which would end the program without a checkpoint or a word; it is
    replaced when the work begins.

    Args:
        ask: a function without arguments.
    """

    def __init__(self, ask: Callable[[], None]):
        self.ask, self.before = ask, {}

    def __enter__(self) -> Self:
        self.before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._take()
        return self

    def __exit__(self, *_: Any) -> None:
        if _is_main_thread():
            for number, handler in self.before.items():
                signal.signal(number, handler)

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._take()

    def on_validation_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._take()

    def _take(self) -> None:
        if _is_main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: self.ask())


def _is_main_thread() -> bool:
    """Signals reach no other."""
    return threading.current_thread() is threading.main_thread()
