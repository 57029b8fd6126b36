"""Running a study: every row is tuned, trained with several seeds and evaluated; finished runs are not repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

from chimera_lab.studies.results import MAJORITY, TEST, RowResult
from chimera_lab.studies.study import Study, run_folder
from chimera_lab.studies.workers import Workers
from chimera_lab.training.files import read_json, write_json
from chimera_lab.training.kinds import create_task
from chimera_lab.training.lock import make_folder
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import as_dict, keys


def run_study(
    study: Study, folder: Path, workers: Workers, before: tuple[Path, Study] | None = None
) -> dict[str, RowResult]:
    """Train and evaluate all rows, except for those already finished in ``folder``; `Study.then` is not run.

    Args:
        study: the comparison.
        folder: the folder of its runs.
        workers: the processes that train.
        before: the study whose runs the rows start from, with its folder.
    """
    recipes = study.recipes()
    _check_folder(study, recipes, folder)
    recipes = {(n, s): _of_seed(r, s, before) for n, r in recipes.items() for s in range(study.seeds)}
    sweeps = _sweep(study, {row.name: recipes[row.name, 0] for row in study.rows}, folder, workers)
    runs = {
        run_folder(folder, n, f"seed-{s}"): (study, replace(r, lr=_best(study, sweeps[n]) or r.lr))
        for (n, s), r in recipes.items()
    }
    trained = workers.train(runs)
    tested = _test(study, trained, workers)
    results = {}
    for row in study.rows:
        folders = [run_folder(folder, row.name, f"seed-{s}") for s in range(study.seeds)]
        found = [trained[f] for f in folders]
        results[row.name] = RowResult(
            name=row.name,
            parameters=found[0]["parameters"],
            lr=runs[folders[0]][1].lr,
            sweep={f"{lr:g}": figure for lr, figure in sweeps[row.name].items()},
            figures={TEST: _by_metric(study, [tested[f] for f in folders])},
            seconds=sum(r["seconds"] for r in found) / len(found),
            diverged=sum(not r["metrics"] for r in found),
        )
    _evaluate_further(study, folder, results, workers)
    if study.majority:
        guessed = _by_metric(study, [create_task(recipes[study.rows[0].name, 0]).majority()])
        results[MAJORITY] = RowResult(MAJORITY, 0, 0.0, {}, {TEST: guessed}, 0.0)
    return results


def count_steps(study: Study) -> int:
    """Number of runs and further evaluations of a study and of those in `Study.then`."""
    trained = [(sum(row.changes is not None for row in section.rows), section) for section in study.shown]
    further = sum(rows * len(section.evaluations) * study.seeds for rows, section in trained)
    own = len(study.rows) * (len(study.learning_rates) + study.seeds * (2 if study.test else 1)) + further
    return own + sum(map(count_steps, study.then.values()))


def _of_seed(recipe: Recipe, seed: int, before: tuple[Path, Study] | None) -> Recipe:
    """A recipe with a seed; it starts from the run of ``before`` with the same row and seed, modulo its seeds."""
    if before is None:
        return replace(recipe, seed=seed)
    row: str = getattr(recipe, "from_")  # noqa: B009  (recipes that start from nothing do not have it)
    folder, study = before
    return replace(recipe, seed=seed, **{"from_": str(run_folder(folder, row, f"seed-{seed % study.seeds}"))})


def _sweep(
    study: Study, recipes: Mapping[str, Recipe], folder: Path, workers: Workers
) -> dict[str, dict[float, float]]:
    """The metric of each row on validation data by learning rate."""
    runs = {
        (name, lr): replace(recipe, **study.sweep, lr=lr, validation=study.validation)
        for name, recipe in recipes.items()
        for lr in study.learning_rates
    }
    found = workers.train({run_folder(folder, n, f"lr-{lr:g}"): (study, r) for (n, lr), r in runs.items()})
    return {
        name: {
            lr: study.figure(found[run_folder(folder, name, f"lr-{lr:g}")]["metrics"]) for lr in study.learning_rates
        }
        for name in recipes
    }


def _best(study: Study, sweep: Mapping[float, float]) -> float | None:
    """The learning rate with the best metric, the smallest of equal ones; NaN is worst. ``None`` without a sweep."""
    sign = 1 if study.larger_is_better else -1
    return max(sorted(sweep), key=lambda lr: (not isnan(sweep[lr]), sign * sweep[lr]), default=None)


def _test(study: Study, trained: Mapping[Path, dict[str, Any]], workers: Workers) -> dict[Path, dict[str, float]]:
    """Metrics on test data: of the last evaluation in training, or of one evaluation of the chosen weights."""
    if study.test:
        return workers.evaluate({folder: (folder, TEST, study.test) for folder in trained})
    return {folder: result["metrics"] for folder, result in trained.items()}


def _by_metric(study: Study, seeds: list[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [metrics.get(name, nan) for metrics in seeds] for name in study.metrics}


def _check_folder(study: Study, recipes: Mapping[str, Recipe], folder: Path) -> None:
    """Refuse a folder whose rows have other settings: its runs are not comparable.

    A setting that is missing there is newer than the folder and has its default.
    """
    rows = json.loads(json.dumps({name: as_dict(recipe) for name, recipe in recipes.items()}, default=str))
    defaults = {key.name: key.default for key in keys(type(study.recipe))}
    path = folder / "study.json"
    there: dict[str, Any] = {"recipes": {}}
    if path.exists() and any(folder.glob("*/*/config.yaml")):  # settings may change until the first run exists
        there |= read_json(path, dict, "restore it, or choose another folder with --out")
    for name, row in rows.items():
        before = defaults | there["recipes"].get(name, row)
        if (key := next((key for key in row if before.get(key) != row[key]), None)) is not None:
            raise ValueError(
                f"{folder} holds a study with other settings: {key} of {name} is {before.get(key)!r} there and "
                f"{row[key]!r} here; choose another folder with --out"
            )
    make_folder(folder)
    write_json(path, {"study": study.doc, "recipes": there["recipes"] | rows})


def _evaluate_further(study: Study, folder: Path, results: dict[str, RowResult], workers: Workers) -> None:
    """Evaluate the trained models with other settings; the metrics are stored in the folders of the runs."""
    wanted = {
        (same.name, title): changes
        for section in study.shown
        for title, changes in section.evaluations.items()
        for row in section.rows
        if (same := study.same(row)) is not None
    }
    calls = {
        (name, title, s): (run_folder(folder, name, f"seed-{s}"), title, changes)
        for (name, title), changes in wanted.items()
        for s in range(study.seeds)
    }
    metrics = workers.evaluate(calls)
    for name, title in wanted:
        results[name].figures[title] = _by_metric(study, [metrics[name, title, s] for s in range(study.seeds)])
