"""The Lightning module: one step of training, one of evaluation, and the state that a checkpoint holds."""

from __future__ import annotations

import operator
from math import isnan
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric

from chimera_lab.data.random import seed_of, seeded
from chimera_lab.training.averaging import averaged_copy, decay_at, update_average
from chimera_lab.training.optimizer import optimizer
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.schedule import StepSchedule, learning_rate
from chimera_lab.training.settings import as_dict
from chimera_lab.training.task import StepOutput, Task


class TrainingModule(L.LightningModule):
    """A task's model in training.

    Progress is counted here in optimizer steps; Lightning's loops start again from zero when a run is resumed. The
    random numbers of a step are a function of seed, step and rank.

    Args:
        task: samples, model, loss and metrics.
        recipe: the settings.
        schedule: the steps of the run.
    """

    def __init__(self, task: Task, recipe: Recipe, schedule: StepSchedule):
        super().__init__()
        self.task, self.recipe, self.schedule = task, recipe, schedule
        with seeded(recipe.seed, "weights"):
            self.model = task.build_model(recipe)
        self.model.train()
        self.average = averaged_copy(self.model) if recipe.ema else None
        self.steps_done = 0
        self.best: float | None = None
        self.sums: dict[str, Tensor] = {}  # over the current evaluation interval, with "count"
        self.step_losses: list[Tensor] = []  # of the last step's micro-batches
        self.results: dict[str, float] = {}  # of the last evaluation
        self._metrics: dict[str, dict[str, Metric]] = {}

    # Training

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        step = self.steps_done
        micro = batch_idx % self.trainer.accumulate_grad_batches
        torch.manual_seed(seed_of(self.recipe.seed, "step", step, micro, self.global_rank))
        output = self.task.step(self.model, batch)
        self.step_losses = [*(self.step_losses if micro else ()), output.loss.detach()]
        self._add(output)
        return output.loss

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, self.schedule, self.steps_done)
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        if self.average is not None:
            update_average(self.average, self.model, decay_at(self.recipe.ema, self.steps_done))
        self.steps_done += 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimizer(self.model, self.recipe)

    def _add(self, output: StepOutput) -> None:
        count = torch.tensor(float(output.count), dtype=torch.float64)
        self.sums["count"] = self.sums.get("count", 0) + count
        for name, mean in {"loss": output.loss, **output.running}.items():
            self.sums[name] = self.sums.get(name, 0) + mean.detach().double() * count

    def step_loss(self) -> float:
        """The loss of the last step, averaged over devices. Must be called on all of them."""
        loss = torch.stack(self.step_losses).double().mean()
        return float(self.trainer.strategy.reduce(loss, reduce_op="mean"))

    def loss_is_finite(self) -> bool:
        """Whether the last step's loss is finite on this device."""
        return bool(torch.stack(self.step_losses).isfinite().all())

    def weights_are_finite(self) -> bool:
        """Whether all weights on this device are finite."""
        return all(bool(weight.isfinite().all()) for weight in self.parameters())

    def interval_means(self) -> dict[str, float]:
        """Means over the current evaluation interval and all devices. Must be called on all of them."""
        sums = self._reduced_sums()
        return {name: value / sums["count"] for name, value in sums.items() if name != "count"}

    def start_interval(self) -> None:
        """Reset the sums for the next evaluation interval."""
        self.sums = {}

    def _reduced_sums(self) -> dict[str, float]:
        if not self.sums:
            return {}
        sums = torch.stack([value.to(self.device) for value in self.sums.values()])
        sums = self.trainer.strategy.reduce(sums, reduce_op="sum")
        return dict(zip(self.sums, sums.tolist(), strict=True))

    # Evaluation

    def weights(self) -> dict[str, nn.Module]:
        """The models to evaluate: the trained one, and its moving average."""
        return {"raw": self.model} if self.average is None else {"raw": self.model, "ema": self.average}

    def on_validation_epoch_start(self) -> None:
        self._metrics = {
            which: {
                name: metric.to(self.device) for name, metric in {"loss": MeanMetric(), **self.task.metrics()}.items()
            }
            for which in self.weights()
        }

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        for which, model in self.weights().items():
            model.eval()
            output = self.task.step(model, batch)
            for name, metric in self._metrics[which].items():
                if name == "loss":
                    metric.update(output.loss, output.count)
                else:
                    metric.update(output.predictions, output.targets)

    def on_validation_epoch_end(self) -> None:
        self.results = {
            f"{name}{'' if which == 'raw' else '_ema'}": float(metric.compute())
            for which, metrics in self._metrics.items()
            for name, metric in metrics.items()
        }
        self._metrics = {}

    def improved(self) -> str | None:
        """Which weights, if any, improve the task's metric over all previous evaluations; updates ``best``."""
        better = operator.gt if self.task.larger_is_better else operator.lt
        winner = None
        for which in self.weights():
            value = self.results[self.task.monitor + ("" if which == "raw" else "_ema")]
            if self.best is None or better(value, self.best) or (isnan(self.best) and not isnan(value)):
                self.best, winner = value, which
        return winner

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["chimera"] = {
            "kind": self.recipe.kind,
            "recipe": as_dict(self.recipe),
            "step": self.steps_done,
            "sums": self._reduced_sums(),
            "best": self.best,
            "results": self.results,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["chimera"]
        self.steps_done, self.best, self.results = state["step"], state["best"], state["results"]
        if self.global_rank == 0:
            self.sums = {name: torch.tensor(value, dtype=torch.float64) for name, value in state["sums"].items()}
        else:
            self.sums = {name: torch.zeros((), dtype=torch.float64) for name in state["sums"]}
        checkpoint.pop("loops", None)  # Lightning's counters, from which it cannot resume exactly
