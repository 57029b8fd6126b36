"""Run a study with a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chimera_lab.studies.results import RowResult
from chimera_lab.studies.runner import count_steps, run_study
from chimera_lab.studies.study import Study
from chimera_lab.studies.workers import Workers
from chimera_lab.training.kinds import create_task
from chimera_lab.training.lock import held
from chimera_lab.training.recipe import RuntimeConfig


def run_with_progress(
    study: Study, folder: Path, jobs: int, machine: RuntimeConfig, remark: Callable[[Path], str] = lambda run: ""
) -> tuple[dict[str, RowResult], dict[str, dict[str, RowResult]]]:
    """Run a study and the studies that follow it; returns the results of both.

    Args:
        study: the comparison.
        folder: the folder of its runs.
        jobs: parallel runs.
        machine: how each run is computed.
        remark: words to print when the run in a folder has ended.
    """
    for follow_up in study.then.values():
        if follow_up.majority:
            create_task(follow_up.recipe).majority()  # if its data are missing, fail before an hour of training
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("runs", total=count_steps(study))

        def advance(run: str) -> None:
            progress.advance(bar)
            if words := remark(Path(run)):
                console.print(words, highlight=False)

        workers = Workers(jobs, lambda line: console.print(line, highlight=False), advance, machine)
        try:
            with held(folder):
                results = run_study(study, folder, workers)
                follow_ups = {
                    name: run_study(follow_up, folder / name, workers, (folder, study))
                    for name, follow_up in study.then.items()
                }
                return results, follow_ups
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command continues from here") from None
