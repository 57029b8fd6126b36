"""How long the runs of a study take on this machine: a few training steps of each row, times the number of steps."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from chimera_lab.studies.study import Study, run_folder
from chimera_lab.training.kinds import create_task
from chimera_lab.training.loaders import train_and_evaluation
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.schedule import StepSchedule

#: Measured steps of each row.
_STEPS = 4


def expected_seconds(study: Study, folder: Path) -> dict[Path, float]:
    """Seconds of each unfinished run of a study, by folder, if it had the machine for itself; without evaluations."""
    seconds = {}
    for name, recipe in study.recipes().items():
        held_out = replace(recipe, **study.sweep, validation=study.validation)
        runs = {run_folder(folder, name, f"lr-{lr:g}"): held_out for lr in study.learning_rates}
        runs |= {run_folder(folder, name, f"seed-{seed}"): recipe for seed in range(study.seeds)}
        left = {run: settings for run, settings in runs.items() if not (run / "result.json").exists()}
        if left:
            step = _seconds_per_step(recipe)
            seconds |= {run: step * _steps(settings) for run, settings in left.items()}
    return seconds


def _steps(recipe: Recipe) -> int:
    train, _, _ = train_and_evaluation(create_task(recipe), recipe)
    return StepSchedule.of(recipe, len(train)).total


def _seconds_per_step(recipe: Recipe) -> float:
    """The best time of a forward and backward pass of a batch. The first pass compiles kernels."""
    task = create_task(recipe)
    train, _, _ = train_and_evaluation(task, recipe)
    with torch.random.fork_rng(devices=[]):
        batch = train.collate([train.sample(index) for index in range(recipe.batch_size)])
        model = task.build_model(recipe)
        best = math.inf
        for _ in range(_STEPS):
            begin = perf_counter()
            task.step(model, batch).loss.backward()
            best = min(best, perf_counter() - begin)
    return best
