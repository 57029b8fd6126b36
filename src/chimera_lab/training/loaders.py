"""Loaders of a run: the rest of the lap under way, and the evaluation data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from chimera_lab.data.random import seeded
from chimera_lab.data.samples import Part, Samples, choose, split
from chimera_lab.training.course import Course, Share
from chimera_lab.training.module import TrainingModule
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Task


def train_and_evaluation(task: Task, recipe: Recipe) -> tuple[Samples, Samples, str]:
    """Samples to train on, samples to evaluate on, and what the latter are: "test", "validation" or "dev"."""
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
    """Loaders that begin where the run is, without reading what it has seen already.

    Args:
        train: samples to train on.
        evaluation: samples to evaluate on.
        recipe: batch sizes and seed.
        course: the run's steps.
        workers: processes that prepare samples.
    """

    def __init__(self, train: Samples, evaluation: Samples, recipe: Recipe, course: Course, workers: int):
        super().__init__()
        self.train, self.evaluation, self.recipe, self.course = train, evaluation, recipe, course
        self.workers = workers

    def train_dataloader(self) -> DataLoader:
        trainer = self.trainer
        assert trainer is not None
        share = Share.of(self.recipe, trainer.global_rank, trainer.world_size)
        module = trainer.lightning_module
        assert isinstance(module, TrainingModule)
        return loader(self.train, LapBatches(self.course, share, module.steps_done), self.recipe.seed, self.workers)

    def val_dataloader(self) -> DataLoader:
        trainer = self.trainer
        assert trainer is not None
        batches = evaluation_batches(
            len(self.evaluation), self.recipe.eval_batch, trainer.global_rank, trainer.world_size
        )
        return loader(self.evaluation, batches, self.recipe.seed, self.workers)


class LapBatches(Sampler):
    """Micro-batches of one device, from a step to the end of its lap, as lists of (epoch, index)."""

    def __init__(self, course: Course, share: Share, step: int):
        self.course, self.share, self.step = course, share, step

    def __len__(self) -> int:
        return (self.course.lap_end(self.step) - self.step) * self.share.accumulate

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step in range(self.step, self.course.lap_end(self.step)):
            yield from self.course.shares(step, self.share)


def evaluation_batches(size: int, batch_size: int, rank: int, world: int) -> list[list[tuple[int, int]]]:
    """One device's batches of all samples, each sample once; every device has the same number of batches."""
    if size < world:
        raise ValueError(f"there are {size} samples to evaluate for {world} devices; use fewer devices")
    count = -(-size // (batch_size * world))
    mine = torch.arange(rank, size, world)
    return [[(0, int(index)) for index in batch] for batch in mine.tensor_split(count)]


def loader(samples: Samples, batches: Any, seed: int, workers: int) -> DataLoader:
    """Batches of samples, each drawn with randomness that depends on seed, epoch and index alone."""
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
