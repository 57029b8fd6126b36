"""The course of a run: which samples belong to which step, as a pure function of seed and step."""

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
class Course:
    """Steps, epochs and laps. A lap leads from one evaluation to the next.

    Every step takes a full batch; what remains at the end of an epoch is left out, another part in each.

    Args:
        num_samples: of the training data.
        batch_size: samples in a step.
        seed: of the run.
        total: steps of the run.
        lap: steps of a lap; the last may be shorter.
    """

    num_samples: int
    batch_size: int
    seed: int
    total: int
    lap: int

    @classmethod
    def of(cls, recipe: Recipe, num_samples: int) -> Course:
        """The course of a recipe on so many samples."""
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
        """Full batches of an epoch."""
        return self.num_samples // self.batch_size

    def lap_end(self, step: int) -> int:
        """The step after which the lap that ``step`` belongs to is over."""
        return min((step // self.lap + 1) * self.lap, self.total)

    def laps_left(self, step: int) -> int:
        """Laps to come, the one under way included."""
        return math.ceil(self.total / self.lap) - step // self.lap if step < self.total else 0

    def batch(self, step: int) -> tuple[int, Tensor]:
        """The epoch of a step (from 0) and the indices of its samples."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return epoch, self._order(epoch)[place * self.batch_size : (place + 1) * self.batch_size]

    def shares(self, step: int, share: Share) -> Iterator[list[tuple[int, int]]]:
        """What one device treats of a step: for each micro-batch the (epoch, index) of its samples."""
        epoch, indices = self.batch(step)
        parts = indices.view(share.accumulate, share.world, -1)
        yield from ([(epoch, int(index)) for index in part[share.rank]] for part in parts)

    def _order(self, epoch: int) -> Tensor:
        return _permutation(self.num_samples, self.seed, epoch)


@dataclass(frozen=True)
class Share:
    """One device's part of each batch: rank among ``world``, in ``accumulate`` micro-batches."""

    rank: int
    world: int
    accumulate: int

    @classmethod
    def of(cls, recipe: Recipe, rank: int, world: int) -> Share:
        """The share of a device; the batch must come out even."""
        if recipe.batch_size % world:
            raise ValueError(
                f"batch_size {recipe.batch_size} cannot be shared by {world} devices: make it a multiple of {world}"
            )
        whole = recipe.batch_size // world
        micro = min(recipe.micro_batch or whole, whole)
        if whole % micro:
            raise ValueError(
                f"a device's {whole} samples of a batch cannot be treated {micro} at a time: "
                f"make micro_batch a divisor of {whole}"
            )
        return cls(rank, world, whole // micro)


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(size, generator=generator(seed, "order", epoch))


def learning_rate(recipe: Recipe, course: Course, step: int) -> float:
    """Linear warm-up to ``lr``, then down to ``final_lr · lr`` at the end of the course."""
    warmup = recipe.warmup_steps or round(recipe.warmup_epochs * course.steps_per_epoch)
    if step < warmup:
        return recipe.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, course.total - warmup)
    shape = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1.0}[recipe.schedule]
    return recipe.lr * (recipe.final_lr + (1 - recipe.final_lr) * shape)
