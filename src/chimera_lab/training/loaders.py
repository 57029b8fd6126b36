"""Data loaders of a run: the rest of the current evaluation interval, and the evaluation data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from chimera_lab.data.random import seeded
from chimera_lab.data.samples import Part, Samples, choose, split
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.schedule import DeviceShare, StepSchedule
from chimera_lab.training.task import Task


def train_and_evaluation(task: Task, recipe: Recipe) -> tuple[Samples, Samples, str]:
    """Training samples, evaluation samples, and the name of the latter: "test", "validation" or "dev"."""
    train = task.train_samples()
    if not recipe.validation:
        return _limited(train, recipe), task.test_samples(), task.tested_on
    count = max(1, round(recipe.validation * len(train)))
    held_out, _ = split(task.plain_train_samples(), count, "validation")
    _, rest = split(train, count, "validation")
    return _limited(rest, recipe), held_out, "validation"


def _limited(train: Samples, recipe: Recipe) -> Samples:
    limit = recipe.train_limit
    if limit is None:
        return train
    if limit > len(train):
        raise ValueError(f"train_limit is {limit}, but there are only {len(train)} samples to train on; lower it")
    return Part(train, choose(train, limit, "limit"))


class RunData(L.LightningDataModule):
    """Loaders that start at the current step of the run and skip earlier samples without reading them.

    Args:
        train: samples to train on.
        evaluation: samples to evaluate on.
        recipe: batch sizes and seed.
        schedule: the steps of the run.
        workers: number of loader processes.
    """

    def __init__(self, train: Samples, evaluation: Samples, recipe: Recipe, schedule: StepSchedule, workers: int):
        super().__init__()
        self.train, self.evaluation, self.recipe, self.schedule = train, evaluation, recipe, schedule
        self.workers = workers

    def train_dataloader(self) -> DataLoader:
        trainer = self.trainer
        assert trainer is not None
        share = DeviceShare.of(self.recipe, trainer.global_rank, trainer.world_size)
        module = trainer.lightning_module
        assert isinstance(module, TrainingModule)
        return loader(
            self.train, IntervalBatches(self.schedule, share, module.steps_done), self.recipe.seed, self.workers
        )

    def val_dataloader(self) -> DataLoader:
        trainer = self.trainer
        assert trainer is not None
        batches = evaluation_batches(
            len(self.evaluation), self.recipe.eval_batch, trainer.global_rank, trainer.world_size
        )
        return loader(self.evaluation, batches, self.recipe.seed, self.workers)


class IntervalBatches(Sampler):
    """Micro-batches of one device, from a step to the end of its evaluation interval, as lists of (epoch, index)."""

    def __init__(self, schedule: StepSchedule, share: DeviceShare, step: int):
        self.schedule, self.share, self.step = schedule, share, step

    def __len__(self) -> int:
        return (self.schedule.interval_end(self.step) - self.step) * self.share.accumulate

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step in range(self.step, self.schedule.interval_end(self.step)):
            yield from self.schedule.micro_batches(step, self.share)


def evaluation_batches(size: int, batch_size: int, rank: int, world: int) -> list[list[tuple[int, int]]]:
    """One device's batches; each sample occurs once, and all devices have the same number of batches."""
    if size < world:
        raise ValueError(f"there are {size} samples to evaluate for {world} devices; use fewer devices")
    count = -(-size // (batch_size * world))
    mine = torch.arange(rank, size, world)
    return [[(0, int(index)) for index in batch] for batch in mine.tensor_split(count)]


def loader(samples: Samples, batches: Any, seed: int, workers: int) -> DataLoader:
    """Batches of samples; the random numbers of a sample depend on seed, epoch and index only."""
    return DataLoader(
        _Seeded(samples, seed), batch_sampler=batches, num_workers=workers, collate_fn=samples.collate,
        pin_memory=torch.cuda.is_available(),
    )  # fmt: skip


class _Seeded(Dataset):
    def __init__(self, samples: Samples, seed: int):
        self.samples, self.seed = samples, seed

    def __getitem__(self, index: tuple[int, int]) -> Any:
        epoch, number = index
        with seeded(self.seed, "sample", epoch, number):
            return self.samples.sample(number)
