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
from chimera_lab.training.course import Course, learning_rate
from chimera_lab.training.optimizer import optimizer
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import as_dict
from chimera_lab.training.task import Outcome, Task


class TrainingModule(L.LightningModule):
    """A task's model in training.

    Progress is counted here, in steps of the optimiser, and not by Lightning's loops, which start afresh when a run is
    resumed. All randomness of a step is a function of seed, step and rank.

    Args:
        task: what to train.
        recipe: how.
        course: the run's steps.
    """

    def __init__(self, task: Task, recipe: Recipe, course: Course):
        super().__init__()
        self.task, self.recipe, self.course = task, recipe, course
        with seeded(recipe.seed, "weights"):
            self.model = task.build_model(recipe)
        self.model.train()
        self.average = averaged_copy(self.model) if recipe.ema else None
        self.steps_done = 0
        self.best: float | None = None
        self.sums: dict[str, Tensor] = {}  # of the lap, with "count"
        self.step_losses: list[Tensor] = []  # of the last step's micro-batches
        self.results: dict[str, float] = {}  # of the last evaluation
        self._metrics: dict[str, dict[str, Metric]] = {}

    # Training

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        step = self.steps_done
        micro = batch_idx % self.trainer.accumulate_grad_batches
        torch.manual_seed(seed_of(self.recipe.seed, "step", step, micro, self.global_rank))
        outcome = self.task.outcome(self.model, batch)
        self.step_losses = [*(self.step_losses if micro else ()), outcome.loss.detach()]
        self._add(outcome)
        return outcome.loss

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, self.course, self.steps_done)
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        if self.average is not None:
            update_average(self.average, self.model, decay_at(self.recipe.ema, self.steps_done))
        self.steps_done += 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimizer(self.model, self.recipe)

    def _add(self, outcome: Outcome) -> None:
        count = torch.tensor(float(outcome.count), dtype=torch.float64)
        self.sums["count"] = self.sums.get("count", 0) + count
        for name, mean in {"loss": outcome.loss, **outcome.running}.items():
            self.sums[name] = self.sums.get(name, 0) + mean.detach().double() * count

    def step_loss(self) -> float:
        """The loss of the last step, over all devices. To be called on all of them."""
        loss = torch.stack(self.step_losses).double().mean()
        return float(self.trainer.strategy.reduce(loss, reduce_op="mean"))

    def loss_is_finite(self) -> bool:
        """Whether the last step's loss is finite on this device."""
        return bool(torch.stack(self.step_losses).isfinite().all())

    def weights_are_finite(self) -> bool:
        """Whether all weights that this device has are finite."""
        return all(bool(weight.isfinite().all()) for weight in self.parameters())

    def lap_means(self) -> dict[str, float]:
        """Means over the lap so far, of all devices. To be called on all of them."""
        sums = self._reduced_sums()
        return {name: value / sums["count"] for name, value in sums.items() if name != "count"}

    def end_lap(self) -> None:
        """Begin the sums of the next lap."""
        self.sums = {}

    def _reduced_sums(self) -> dict[str, float]:
        if not self.sums:
            return {}
        sums = torch.stack([value.to(self.device) for value in self.sums.values()])
        sums = self.trainer.strategy.reduce(sums, reduce_op="sum")
        return dict(zip(self.sums, sums.tolist(), strict=True))

    # Evaluation

    def weights(self) -> dict[str, nn.Module]:
        """The models to evaluate: as trained, and averaged."""
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
            outcome = self.task.outcome(model, batch)
            for name, metric in self._metrics[which].items():
                if name == "loss":
                    metric.update(outcome.loss, outcome.count)
                else:
                    metric.update(outcome.predictions, outcome.targets)

    def on_validation_epoch_end(self) -> None:
        self.results = {
            f"{name}{'' if which == 'raw' else '_ema'}": float(metric.compute())
            for which, metrics in self._metrics.items()
            for name, metric in metrics.items()
        }
        self._metrics = {}

    def improved(self) -> str | None:
        """Which weights are better than all before, by the task's metric, if any; they become the best."""
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
        checkpoint.pop("loops", None)  # Lightning's own counts, from which it could not go on exactly
