"""Conducting a study: runs side by side, each resumable, and so the whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from threading import Event, Lock
from typing import Any

from chimera_lab.studies.study import Study
from chimera_lab.training.checkpoints import best_path
from chimera_lab.training.files import read_json, write_json
from chimera_lab.training.lock import make_folder
from chimera_lab.training.recipe import Machine, Recipe
from chimera_lab.training.run import Run, open_run

Say = Callable[[str], None]


#: The column of figures on test data, the row of those who guess.
TEST, MAJORITY = "test", "majority"


@dataclass(frozen=True)
class RowResult:
    """A trained row.

    Attributes:
        name: of the row.
        parameters: of the model.
        lr: chosen on validation data, or the recipe's.
        sweep: figure on validation data by learning rate.
        figures: by column (`TEST`, and each further evaluation) and metric, one for each seed.
        seconds: of training, mean over seeds.
        diverged: how many seeds' trainings diverged; their figures are NaN.
    """

    name: str
    parameters: int
    lr: float
    sweep: dict[str, float]
    figures: dict[str, dict[str, list[float]]]
    seconds: float
    diverged: int = 0


def conduct(
    study: Study, folder: Path, workers: Workers, before: tuple[Path, Study] | None = None
) -> dict[str, RowResult]:
    """Train and evaluate all rows; what is finished in ``folder`` is not done again. What comes `then` is left out.

    Args:
        study: what to compare.
        folder: of its runs.
        workers: who train.
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
            row.name,
            found[0]["parameters"],
            runs[folders[0]][1].lr,
            {f"{lr:g}": figure for lr, figure in sweeps[row.name].items()},
            {TEST: _by_metric(study, [tested[f] for f in folders])},
            sum(r["seconds"] for r in found) / len(found),
            sum(not r["metrics"] for r in found),
        )
    _evaluate_further(study, folder, results, workers)
    if study.majority:
        guessed = _by_metric(study, [recipes[study.rows[0].name, 0].task().majority()])
        results[MAJORITY] = RowResult(MAJORITY, 0, 0.0, {}, {TEST: guessed}, 0.0)
    return results


def count_steps(study: Study) -> int:
    """Steps of a study and of what comes then: runs and further evaluations."""
    trained = [(sum(row.changes is not None for row in section.rows), section) for section in study.shown]
    further = sum(rows * len(section.evaluations) * study.seeds for rows, section in trained)
    own = len(study.rows) * (len(study.learning_rates) + study.seeds * (2 if study.test else 1)) + further
    return own + sum(map(count_steps, study.then.values()))


def _of_seed(recipe: Recipe, seed: int, before: tuple[Path, Study] | None) -> Recipe:
    """A recipe with a seed, from that seed's run of the row of ``before`` that it names, or the first ones' again."""
    if before is None:
        return replace(recipe, seed=seed)
    row: str = getattr(recipe, "from_")  # noqa: B009  (recipes that start from nothing do not have it)
    folder, study = before
    return replace(recipe, seed=seed, **{"from_": str(run_folder(folder, row, f"seed-{seed % study.seeds}"))})


def _sweep(
    study: Study, recipes: Mapping[str, Recipe], folder: Path, workers: Workers
) -> dict[str, dict[float, float]]:
    """Of each row the figure on validation data by learning rate."""
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
    """The learning rate with the best figure, of equal ones the smallest; NaN is the worst; none of none."""
    sign = 1 if study.larger_is_better else -1
    return max(sorted(sweep), key=lambda lr: (not isnan(sweep[lr]), sign * sweep[lr]), default=None)


def _test(study: Study, trained: Mapping[Path, dict[str, Any]], workers: Workers) -> dict[Path, dict[str, float]]:
    """Metrics on test data: those that training ended with, or of one evaluation of the weights chosen before."""
    if study.test:
        return workers.evaluate({folder: (folder, TEST, study.test) for folder in trained})
    return {folder: result["metrics"] for folder, result in trained.items()}


def _by_metric(study: Study, seeds: list[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [metrics.get(name, nan) for metrics in seeds] for name in study.metrics}


def _check_folder(study: Study, recipes: Mapping[str, Recipe], folder: Path) -> None:
    """A folder belongs to one study with one budget: runs of different ones are not compared."""
    from chimera_lab.training.settings import as_dict

    rows = json.loads(json.dumps({name: as_dict(recipe) for name, recipe in recipes.items()}, default=str))
    path = folder / "study.json"
    there: dict[str, Any] = {"study": study.doc, "recipes": {}}
    if path.exists() and any(folder.glob("*/*/config.yaml")):  # before the first run anything may still change
        there |= read_json(path, dict, "restore it, or choose another folder with --out")
    if there["study"] != study.doc:
        raise ValueError(f"{folder} holds another study, {there['study']!r}; choose another folder with --out")
    for name, row in rows.items():
        before = there["recipes"].get(name, row)
        if before != row:
            key = next(key for key in before | row if before.get(key) != row.get(key))
            raise ValueError(
                f"{folder} holds a study with other settings: {key} of {name} is {before.get(key)!r} there and "
                f"{row.get(key)!r} here; choose another folder with --out"
            )
    make_folder(folder)
    write_json(path, {"study": study.doc, "recipes": there["recipes"] | rows})


def run_folder(folder: Path, row: str, run: str) -> Path:
    """Where a run of a row is."""
    return folder / re.sub(r"[^\w.-]+", "-", row).strip("-").lower() / run


def _evaluate_further(study: Study, folder: Path, results: dict[str, RowResult], workers: Workers) -> None:
    """Evaluations of trained models with other settings, kept beside their runs."""
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


class Workers:
    """Processes that train, a few at a time.

    Args:
        jobs: runs at a time, each with its share of the processor's cores.
        say: hears of every finished run.
        advance: hears of every finished step of a study.
        machine: how each run is computed.
    """

    def __init__(self, jobs: int, say: Say, advance: Say, machine: Machine):
        self.jobs, self.say, self.advance, self.machine = jobs, say, advance, machine
        self.stop, self.lock, self.running = Event(), Lock(), set()
        self.threads = str(max(1, (os.cpu_count() or 1) // jobs))

    def train(self, runs: Mapping[Path, tuple[Study, Recipe]]) -> dict[Path, dict[str, Any]]:
        """Results of runs, by folder."""
        calls = {folder: (folder, study, recipe) for folder, (study, recipe) in runs.items()}
        return self._all(self._train, calls)

    def evaluate(self, calls: Mapping[Any, tuple[Path, str, Mapping[str, Any]]]) -> dict[Any, dict[str, Any]]:
        """Metrics of further evaluations."""
        return self._all(self._evaluate, calls)

    def _all(self, work: Callable[..., Any], calls: Mapping[Any, tuple[Any, ...]]) -> dict[Any, Any]:
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(work, *args): key for key, args in calls.items()}
            try:
                return {futures[f]: f.result() for f in _as_completed(futures)}
            except BaseException:
                self.stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                with self.lock:
                    for process in self.running:
                        process.terminate()  # they save a checkpoint
                raise

    def _train(self, folder: Path, study: Study, recipe: Recipe) -> dict[str, Any]:
        run = open_run(folder) if (folder / "config.yaml").exists() else None
        if run is None:
            run = Run(folder, study.recipe_name, recipe, self.machine)
            run.create()
        result = self._ended(run)
        if result is None:
            try:
                self._call("train", "--resume", str(folder), log=folder / "log.txt")
            except ValueError:
                if run.divergence is None:
                    raise
            result = self._ended(run)
        if result is None:
            raise ValueError(f"{folder} ended without a result; see {folder / 'log.txt'}")
        figure = f"{result['evaluated_on']} {study.metric} {study.figure(result['metrics']):.4f}"
        what = f"{study.recipe_name}, {folder.parent.name}, {folder.name}"
        self.say(f"{what}: {figure if result['metrics'] else 'diverged'}")
        self.advance(str(folder))
        return result

    def _ended(self, run: Run) -> dict[str, Any] | None:
        """How a run ended, if it did: its result; without metrics if it diverged, or the run it starts from did."""
        start = Path(getattr(run.recipe, "from_", None) or run.folder)
        before = open_run(start).divergence if (start / "config.yaml").exists() else None
        return run.result or run.divergence or before

    def _evaluate(self, folder: Path, title: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        name = re.sub(r"[^\w.-]+", "-", title)
        path = folder / f"eval-{name}.json"
        run = open_run(folder)
        diverged = run.result is None
        weights = best_path(run.checkpoints) if run.recipe.export == "best" else folder
        if not diverged and not path.exists():
            options = [f"--{key}={value}" for key, value in changes.items()]
            self._call("eval", str(weights), *options, "--json", str(path), log=folder / "log.txt")
        self.advance(str(path))
        found = {} if diverged else read_json(path, dict, "delete it, and give the same command again")
        return {key: nan if value is None else value for key, value in found.items()}

    def _call(self, *args: str, log: Path) -> None:
        """`chimera` in a process of its own, its output in a file."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        program = "import sys; from chimera_lab.cli import main; sys.exit(main())"
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *args],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": self.threads},
                start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
            )
            with self.lock:
                self.running.add(process)
            code = process.wait()
            with self.lock:
                self.running.discard(process)
        if code == 130 or self.stop.is_set():
            raise KeyboardInterrupt
        if code:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise ValueError(f"chimera {' '.join(args)} failed: {lines[-1] if lines else 'no output'}; see {log}")


def _as_completed(futures: Iterable[Future]) -> Iterable[Future]:
    """Futures as they are done; an interruption is seen at once."""
    left = set(futures)
    while left:
        done, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)
        yield from done
