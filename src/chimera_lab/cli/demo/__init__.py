"""`chimera demo`: one model on three topologies, each beside its usual rival, and a report to look at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chimera_lab.training.recipe import Recipe
    from chimera_lab.training.run import Run

EXAMPLE = "chimera demo --out runs/demo"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    out = Path("runs") / "demo"
    parser.add_argument("--out", type=Path, default=out, metavar="FOLDER", help=f"of its runs and report ({out})")


def run(args: argparse.Namespace) -> None:
    """Six trainings, a few measurements of speed, and the report; what is there already is not done again."""
    from chimera_lab.training.lock import held

    with held(args.out):
        _run(args)


def _run(args: argparse.Namespace) -> None:
    import rich

    from chimera_lab.cli.demo import report, speed
    from chimera_lab.cli.demo.contests import CONTESTS, OURS

    planned = [(contest, name, recipe) for contest in CONTESTS for name, recipe in contest.recipes().items()]
    runs: dict[str, dict[str, Run]] = {contest.name: {} for contest in CONTESTS}
    print("about five minutes on two cores; can be interrupted, and goes on where it was when started again")
    for k, (contest, name, recipe) in enumerate(planned, 1):
        print(f"[{k}/{len(planned)}] {contest.title}: {name}", flush=True)
        folder = args.out / contest.name / name.lower()
        runs[contest.name][name] = _trained(contest.recipe, recipe, folder)
    print("speed against attention", flush=True)
    speeds = speed.measured(args.out / "speed.json")
    path = args.out / "report.html"
    path.write_text(report.html(runs, speeds), encoding="utf-8")
    rich.print(report.terminal(runs))
    print(f"report, with maps of what each word, pixel and atom hears: {path}")
    for contest in CONTESTS:
        print(f"model: {report.loading(runs[contest.name][OURS])}")
    first = CONTESTS[0]
    print(f'maps of other inputs: chimera show {runs[first.name][OURS].folder} "{first.example}"')


def _trained(name: str, recipe: Recipe, folder: Path) -> Run:
    """The finished run in a folder: trained now, continued, or there already."""
    from chimera_lab.training.fit import latest_checkpoint, train
    from chimera_lab.training.recipe import RuntimeConfig
    from chimera_lab.training.run import Run, open_run
    from chimera_lab.training.stopping import Interrupted

    run = open_run(folder) if (folder / "config.yaml").exists() else Run(folder, name, recipe, RuntimeConfig())
    if run.recipe != recipe:
        raise ValueError(f"{folder} holds a run with other settings: remove it, or choose another folder with --out")
    if run.result is not None:
        print(f"trained already, in {folder}; remove the folder to train again")
        return run
    try:
        train(run, latest_checkpoint(run) if run.exists else None)
    except Interrupted:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    return run
