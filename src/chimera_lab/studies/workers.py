"""Training and evaluating the runs of a study in parallel processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from math import nan
from pathlib import Path
from threading import Event, Lock
from typing import Any

from chimera_lab.studies.study import Study
from chimera_lab.training.checkpoints import best_path
from chimera_lab.training.files import read_json
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.run import Run, open_run

#: Gives the commands in its argument one after the other.
_PROGRAM = (
    "import json, sys; from chimera_lab.cli import main; "
    "sys.exit(next((code for code in map(main, json.loads(sys.argv[1])) if code), 0))"
)


class Workers:
    """Processes that train and evaluate runs in parallel.

    Args:
        jobs: number of simultaneous runs, among which the cores are divided.
        report: called with one line for every finished run.
        advance: called with a path for every finished run or evaluation.
        runtime: how each run is computed.
    """

    def __init__(
        self, jobs: int, report: Callable[[str], None], advance: Callable[[str], None], runtime: RuntimeConfig
    ):
        self.jobs, self.report, self.advance, self.runtime = jobs, report, advance, runtime
        self.stop, self.lock, self.running = Event(), Lock(), set()
        self.threads = str(max(1, (os.cpu_count() or 1) // jobs))

    def train(self, runs: Mapping[Path, tuple[Study, Recipe]]) -> dict[Path, dict[str, Any]]:
        """Train runs; their results by folder."""
        calls = {folder: (folder, study, recipe) for folder, (study, recipe) in runs.items()}
        return self._run_all(self._train, calls)

    def evaluate(self, calls: Mapping[Any, tuple[Path, str, Mapping[str, Any]]]) -> dict[Any, dict[str, Any]]:
        """Evaluate runs with other settings; their metrics. The evaluations of a run share a process."""
        by_run: dict[Path, dict[str, Mapping[str, Any]]] = {}
        for folder, title, changes in calls.values():
            by_run.setdefault(folder, {})[title] = changes
        found = self._run_all(self._evaluate, {folder: (folder, changes) for folder, changes in by_run.items()})
        return {key: found[folder][title] for key, (folder, title, _) in calls.items()}

    def _run_all(self, work: Callable[..., Any], calls: Mapping[Any, tuple[Any, ...]]) -> dict[Any, Any]:
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
            run = Run(folder, study.recipe_name, recipe, self.runtime)
            run.create()
        result = self._result(run)
        if result is None:
            try:
                self._call(["train", "--resume", str(folder)], log=folder / "log.txt")
            except ValueError:
                if run.divergence is None:
                    raise
            result = self._result(run)
        if result is None:
            raise ValueError(f"{folder} ended without a result; see {folder / 'log.txt'}")
        figure = f"{result['evaluated_on']} {study.metric} {study.figure(result['metrics']):.4f}"
        what = f"{study.recipe_name}, {folder.parent.name}, {folder.name}"
        self.report(f"{what}: {figure if result['metrics'] else 'diverged'}")
        self.advance(str(folder))
        return result

    def _result(self, run: Run) -> dict[str, Any] | None:
        """The result of a finished run; without metrics if it, or the run it starts from, diverged."""
        start = Path(getattr(run.recipe, "from_", None) or run.folder)
        before = open_run(start).divergence if (start / "config.yaml").exists() else None
        return run.result or run.divergence or before

    def _evaluate(self, folder: Path, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The metrics of a run by title, each with other settings."""
        names = {title: re.sub(r"[^\w.-]+", "-", title) for title in changes}
        paths = {title: folder / f"eval-{name}.json" for title, name in names.items()}
        run = open_run(folder)
        diverged = run.result is None
        weights = best_path(run.checkpoints) if run.recipe.export == "best" else folder
        left = {} if diverged else {title: path for title, path in paths.items() if not path.exists()}
        calls = [
            ["eval", str(weights), *(f"--{key}={value}" for key, value in changes[title].items()), "--json", str(path)]
            for title, path in left.items()
        ]
        if calls:
            self._call(*calls, log=folder / "log.txt")
        found = {}
        for title, path in paths.items():
            self.advance(str(path))
            values = {} if diverged else read_json(path, dict, "delete it, and give the same command again")
            found[title] = {key: nan if value is None else value for key, value in values.items()}
        return found

    def _call(self, *calls: list[str], log: Path) -> None:
        """Run `chimera` with each list of arguments, until one fails, in a subprocess with its output in a file."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(calls)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": self.threads},
                start_new_session=True,  # Ctrl-C reaches only this process, which forwards it
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
            raise ValueError(f"chimera {' '.join(calls[0])} failed: {lines[-1] if lines else 'no output'}; see {log}")


def _as_completed(futures: Iterable[Future]) -> Iterable[Future]:
    """Futures as they finish; an interruption takes effect at once."""
    left = set(futures)
    while left:
        done, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)
        yield from done
