"""Train the demo's nine models, measure the speed of the mixers, and write the report."""

from __future__ import annotations

import argparse
from pathlib import Path

import rich

from chimera_lab.cli.demo import comparisons, report, speed
from chimera_lab.training import fit
from chimera_lab.training.lock import held
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.run import Run, open_run
from chimera_lab.training.stopping import Interrupted


def run(args: argparse.Namespace) -> None:
    """Nine trainings, a few measurements of speed, and the report; finished parts are not repeated."""
    with held(args.out):
        _run(args.out)


def _run(out: Path) -> None:
    print("about five minutes on two cores; after an interruption, the same command continues where it stopped")
    runs = _train_all(out)
    print("speed against attention", flush=True)
    speeds = speed.measure_once(out / "speed.json")
    path = out / "report.html"
    path.write_text(report.html(runs, speeds), encoding="utf-8")
    rich.print(report.terminal(runs))
    print(f"report, with a maze and maps of the influence between pixels, words and atoms: {path}")
    for comparison in comparisons.COMPARISONS:
        ours = runs[comparison.name][comparisons.OURS]
        print(f"model: {report.loading_code(ours)}")
        print(f"maps of other inputs: {report.show_command(comparison, ours)}")


def _train_all(out: Path) -> dict[str, dict[str, Run]]:
    """The finished run of every model, by comparison and model."""
    planned = [(c, name, recipe) for c in comparisons.COMPARISONS for name, recipe in c.recipes().items()]
    runs: dict[str, dict[str, Run]] = {c.name: {} for c in comparisons.COMPARISONS}
    for k, (comparison, name, recipe) in enumerate(planned, 1):
        print(f"[{k}/{len(planned)}] {comparison.title}: {name}", flush=True)
        folder = out / comparison.name / comparisons.folder_name(name)
        runs[comparison.name][name] = _trained(comparison.recipe, recipe, folder)
    return runs


def _trained(name: str, recipe: Recipe, folder: Path) -> Run:
    """The finished run in a folder: trained or resumed now, or finished before."""
    run = open_run(folder) if (folder / "config.yaml").exists() else Run(folder, name, recipe, RuntimeConfig())
    if run.recipe != recipe:
        raise ValueError(f"{folder} holds a run with other settings: remove it, or choose another folder with --out")
    if run.result is not None:
        print(f"trained already, in {folder}; remove the folder to train again")
        return run
    try:
        fit.train(run, fit.latest_checkpoint(run) if run.exists else None)
    except Interrupted:
        raise KeyboardInterrupt("interrupted; the same command continues from here") from None
    return run
