"""The schedule of a run: the samples of each step, as a pure function of seed and step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from chimera_lab.data.random import generator
from chimera_lab.training.recipe import Recipe


@dataclass(frozen=True)
class StepSchedule:
    """The steps, epochs and evaluation intervals of a run.

    Every step uses a full batch; the remainder of an epoch is dropped, other samples in each epoch.

    Args:
        num_samples: number of training samples.
        batch_size: samples per step.
        seed: seed of the run.
        total: number of steps.
        eval_interval: steps between evaluations; the last interval may be shorter.
    """

    num_samples: int
    batch_size: int
    seed: int
    total: int
    eval_interval: int

    @classmethod
    def of(cls, recipe: Recipe, num_samples: int) -> StepSchedule:
        """The schedule of a recipe with ``num_samples`` training samples."""
        if num_samples < recipe.batch_size:
            raise ValueError(
                f"a batch has {recipe.batch_size} samples, but there are only {num_samples} to train on; "
                f"set batch_size to {num_samples} or less"
            )
        epoch = num_samples // recipe.batch_size
        total = recipe.steps or recipe.epochs * epoch
        return cls(num_samples, recipe.batch_size, recipe.seed, total, min(recipe.eval_every or epoch, total))

    @property
    def steps_per_epoch(self) -> int:
        """Number of full batches in an epoch."""
        return self.num_samples // self.batch_size

    def interval_end(self, step: int) -> int:
        """The step after which the evaluation interval of ``step`` ends."""
        return min((step // self.eval_interval + 1) * self.eval_interval, self.total)

    def intervals_left(self, step: int) -> int:
        """Number of evaluation intervals left, including the current one."""
        return math.ceil(self.total / self.eval_interval) - step // self.eval_interval if step < self.total else 0

    def batch(self, step: int) -> tuple[int, Tensor]:
        """The epoch of a step (from 0) and the indices of its samples."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return epoch, self._order(epoch)[place * self.batch_size : (place + 1) * self.batch_size]

    def micro_batches(self, step: int, share: DeviceShare) -> Iterator[list[tuple[int, int]]]:
        """The micro-batches of one device in a step, each a list of (epoch, index) of its samples."""
        epoch, indices = self.batch(step)
        parts = indices.view(share.accumulate, share.world, -1)
        yield from ([(epoch, int(index)) for index in part[share.rank]] for part in parts)

    def _order(self, epoch: int) -> Tensor:
        return _permutation(self.num_samples, self.seed, epoch)


@dataclass(frozen=True)
class DeviceShare:
    """One device's part of each batch: rank among ``world``, in ``accumulate`` micro-batches."""

    rank: int
    world: int
    accumulate: int

    @classmethod
    def of(cls, recipe: Recipe, rank: int, world: int) -> DeviceShare:
        """The share of a device; the batch must be divisible."""
        if recipe.batch_size % world:
            raise ValueError(
                f"batch_size {recipe.batch_size} cannot be shared by {world} devices: make it a multiple of {world}"
            )
        whole = recipe.batch_size // world
        micro = min(recipe.micro_batch or whole, whole)
        if whole % micro:
            raise ValueError(
                f"a device's {whole} samples of a batch cannot be divided into micro-batches of {micro}: "
                f"make micro_batch a divisor of {whole}"
            )
        return cls(rank, world, whole // micro)


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(size, generator=generator(seed, "order", epoch))


def learning_rate(recipe: Recipe, schedule: StepSchedule, step: int) -> float:
    """Linear warm-up to ``lr``, then decay to ``final_lr · lr`` at the end of the schedule."""
    warmup = recipe.warmup_steps or round(recipe.warmup_epochs * schedule.steps_per_epoch)
    if step < warmup:
        return recipe.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, schedule.total - warmup)
    shape = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1.0}[recipe.schedule]
    return recipe.lr * (recipe.final_lr + (1 - recipe.final_lr) * shape)
