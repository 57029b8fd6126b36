"""The progress bar of a run."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from chimera_lab.training.module import TrainingModule

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressBar(Callback):
    """A progress bar with loss, metrics and remaining time; without a terminal, one line per evaluation."""

    def __init__(self, evaluated_on: str) -> None:
        self.evaluated_on = evaluated_on
        self.progress: Progress | None = None
        self.task: Any = None
        self.started, self.first = 0.0, 0
        self.shown = 0.0

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self.started, self.first = time.monotonic(), pl_module.steps_done
        if trainer.is_global_zero and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
            columns += (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=True))
            self.progress = Progress(*columns, console=Console(stderr=True))
            self.progress.start()
            self.task = self.progress.add_task(
                "starting", total=pl_module.schedule.total, completed=pl_module.steps_done
            )

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        now = time.monotonic()
        if self.progress is not None and now - self.shown > 0.2:
            self.shown = now
            count = pl_module.sums["count"]
            sums = ((name, value) for name, value in pl_module.sums.items() if name != "count")
            means = (f"{name} {float(value / count):.4f}" for name, value in sums)
            epoch = int((pl_module.steps_done - 1) / pl_module.schedule.steps_per_epoch) + 1
            self.progress.update(
                self.task, completed=pl_module.steps_done, description=f"epoch {epoch}  {'  '.join(means)}"
            )

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        means = pl_module.interval_means()
        if trainer.is_global_zero:
            self._print(self._line(pl_module, means))

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        if self.progress is not None:
            self.progress.update(self.task, completed=pl_module.steps_done)
            self.progress.stop()

    def on_exception(self, trainer: L.Trainer, pl_module: Any, exception: BaseException) -> None:
        if self.progress is not None:
            self.progress.stop()

    def _print(self, line: str) -> None:
        if self.progress is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self.progress.console.print(line, highlight=False)

    def _line(self, module: TrainingModule, means: dict[str, float]) -> str:
        step, schedule = module.steps_done, module.schedule
        spent = time.monotonic() - self.started
        left = spent / max(1, step - self.first) * (schedule.total - step)
        train = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        return (
            f"epoch {step / schedule.steps_per_epoch:<5.4g} step {step}/{schedule.total}  train {train}  "
            f"{self.evaluated_on} {format_metrics(module.results)}  {_clock(spent)}, {_clock(left)} left"
        )


def format_metrics(results: dict[str, float]) -> str:
    """``{"top1": 0.9, "top1_ema": 0.8}`` → ``top1 0.9000 (averaged 0.8000)``."""
    words = []
    for name, value in results.items():
        if not name.endswith("_ema"):
            average = results.get(f"{name}_ema")
            words.append(f"{name} {value:.4f}" + ("" if average is None else f" (averaged {average:.4f})"))
    return "  ".join(words)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
