"""The Lightning callback of a run: it writes records and checkpoints, and stops the run when asked."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, NoReturn

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from chimera_lab.training.checkpoints import best_path, checkpoint_path, checkpoints, prune
from chimera_lab.training.export import export_model
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.records import Records
from chimera_lab.training.run import Run
from chimera_lab.training.schedule import learning_rate
from chimera_lab.training.stopping import Diverged, Interrupted

#: Actions after a step, by increasing priority.
_CONTINUE, _SAVE, _STOP, _DIVERGED = 0.0, 1.0, 2.0, 3.0


class RunCallback(Callback):
    """Writes records, then checkpoints: the records contain every step that a checkpoint has seen.

    Each evaluation interval ends with one checkpoint, written after the evaluation, so that a resumed run neither
    repeats nor skips an evaluation.

    Args:
        run: the run; its folder is written to.
        evaluated_on: "test", "validation" or "dev", the prefix of the metrics.
    """

    def __init__(self, run: Run, evaluated_on: str):
        self.run, self.evaluated_on = run, evaluated_on
        self.records: Records | None = None  # of the first process
        self.asked_to_stop = False
        self.last_save = time.monotonic()
        self.seconds, self._since = 0.0, time.monotonic()

    @property
    def state_key(self) -> str:
        """The name of this callback's state in checkpoints, which is older than the class's name."""
        return "Bookkeeper"

    def ask_to_stop(self) -> None:
        """Stop after the current step or evaluation; the second call stops at once."""
        if self.asked_to_stop:
            raise Interrupted(
                f"stopped at once; continue from the last checkpoint with: chimera train --resume {self.run.folder}"
            )
        self.asked_to_stop = True

    def seconds_so_far(self) -> float:
        """Seconds of training, including those before the run was resumed."""
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
        step, schedule = pl_module.steps_done, pl_module.schedule
        action = self._next_action(trainer, step, pl_module.loss_is_finite())
        if action == _DIVERGED:
            self._diverged(pl_module, "the loss")
        if step % pl_module.recipe.log_every == 0:
            self._add_step(pl_module)
        is_end = step == schedule.interval_end(step - 1)
        if is_end or action >= _SAVE:
            self._check_weights(trainer, pl_module)
        if is_end:
            return  # the end of an interval is recorded after its evaluation
        if action >= _SAVE:
            self._save(trainer, pl_module)
        if action == _STOP:
            self._stop(pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        means = pl_module.interval_means()
        row = {"step": pl_module.steps_done, "epoch": pl_module.steps_done / pl_module.schedule.steps_per_epoch}
        row |= {f"train_{name}": value for name, value in means.items()}
        row |= {f"{self.evaluated_on}_{name}": value for name, value in pl_module.results.items()}
        if self.records is not None:
            self.records.add_evaluation(row)
        pl_module.start_interval()
        self._save_best(trainer, pl_module)
        self._save(trainer, pl_module)
        if self._next_action(trainer, 0) == _STOP and pl_module.steps_done < pl_module.schedule.total:
            self._stop(pl_module)

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._close()

    def on_exception(self, trainer: L.Trainer, pl_module: Any, exception: BaseException) -> None:
        with suppress(OSError):  # a full disk has been reported already
            self._close()

    def _close(self) -> None:
        if self.records is not None:
            records, self.records = self.records, None
            records.close()

    def _add_step(self, module: TrainingModule) -> None:
        loss = module.step_loss()
        if self.records is not None:
            rate = learning_rate(module.recipe, module.schedule, module.steps_done - 1)
            self.records.add_step({"step": module.steps_done, "lr": rate, "loss": loss})

    def _next_action(self, trainer: L.Trainer, step: int, is_finite: bool = True) -> float:
        """The action after a step, the same in all processes although their clocks, signals and losses differ."""
        every, minutes = self.run.runtime.checkpoint_every, self.run.runtime.checkpoint_minutes
        due = bool(every and step % every == 0) or time.monotonic() - self.last_save > 60 * minutes
        action = _DIVERGED if not is_finite else _STOP if self.asked_to_stop else _SAVE if due else _CONTINUE
        return _largest(trainer, action)

    def _check_weights(self, trainer: L.Trainer, module: TrainingModule) -> None:
        """Stop the run before non-finite weights are recorded or saved. Must be called on all devices."""
        if _largest(trainer, float(not module.weights_are_finite())):
            self._diverged(module, "a weight")

    def _diverged(self, module: TrainingModule, what: str) -> NoReturn:
        recipe, found = module.recipe, checkpoints(self.run.checkpoints)
        last = f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"
        raise Diverged(
            f"training diverged: {what} became NaN or infinite in step {module.steps_done} of {module.schedule.total}; "
            f"{last}; try again with a smaller lr (it is {recipe.lr:g}), a longer warm-up or a smaller clip (it is "
            f"{recipe.clip:g}{'' if recipe.clip else ', none'}), and look for extreme values in the data"
        )

    def _save_best(self, trainer: L.Trainer, module: TrainingModule) -> None:
        if module.recipe.export != "best" or (which := module.improved()) is None:
            return
        trainer.save_checkpoint(best_path(self.run.checkpoints))
        if trainer.is_global_zero:
            export_model(self.run, module, which)

    def _save(self, trainer: L.Trainer, module: TrainingModule) -> None:
        if self.records is not None:
            self.records.sync()
        trainer.save_checkpoint(checkpoint_path(self.run.checkpoints, module.steps_done))
        if trainer.is_global_zero:
            prune(self.run.checkpoints, module.steps_done)
        self.last_save = time.monotonic()

    def _stop(self, module: TrainingModule) -> NoReturn:
        raise Interrupted(
            f"stopped after step {module.steps_done} of {module.schedule.total}; continue with: "
            f"chimera train --resume {self.run.folder}"
        )


def _largest(trainer: L.Trainer, value: float) -> float:
    """The largest value over all processes. Must be called in all of them."""
    if trainer.world_size == 1:
        return value
    return float(trainer.strategy.reduce(torch.tensor(value, device=trainer.strategy.root_device), reduce_op="max"))
