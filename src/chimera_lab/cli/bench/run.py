"""Measure the chosen cases, print the table, and write what was asked for."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import rich
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chimera_lab.cli.bench import cases, isolated, plot, report, table
from chimera_lab.cli.bench.measure import Result
from chimera_lab.cli.bench.point import CURVES
from chimera_lab.cli.bench.scaling import QUICK, Point, ScalingPlan, measure_curve
from chimera_lab.cli.options import check_parent
from chimera_lab.training.files import write_json

_SECONDS, _QUICK_SECONDS = 6.0, 1.0
_PICTURES = (".png", ".svg", ".pdf")


def run(args: argparse.Namespace) -> None:
    """Measure, print the table, write what was asked for."""
    if args.gpu_estimate:
        from chimera_lab.planning.roofline import roofline_table  # loads Triton, which measurements do without

        print(roofline_table())
        return
    chosen = cases.pick(args.only, args.models)
    _check_paths(args)

    if args.plot is not None or any(case.name == "planar" for case in chosen):
        import matplotlib  # noqa: F401  (if it is missing, fail before minutes of measuring)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    machine, seconds = report.describe_machine(), _QUICK_SECONDS if args.quick else _SECONDS
    with _progress() as progress:
        results = _measure(chosen, seconds, args.threads, progress)
        points = [] if args.plot is None else _scale(args.quick, torch.get_num_threads(), progress)
    console = rich.get_console()
    # A file or a pipe has no width to which the table should be squeezed.
    (console if console.is_terminal else Console(width=200)).print(table.rich_table(results))
    for result in results:
        if result.memory is not None:
            ours, theirs = (f"{b / 2**30:.2f} GiB" for b in result.memory)
            print(f"{result.case.name}: memory beyond the weights {ours}, {result.case.against} {theirs}")
    done = report.BenchmarkRun(args.command_line, torch.get_num_threads(), seconds, results, points, machine)
    _write(done, args)


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _measure(chosen: list[cases.Case], seconds: float, threads: int | None, progress: Progress) -> list[Result]:
    results, task = [], progress.add_task("", total=len(chosen))
    for case in chosen:
        progress.update(task, description=case.name)
        results.append(isolated.measure_isolated(case, seconds, threads))
        progress.advance(task)
    return results


def _scale(quick: bool, threads: int, progress: Progress) -> list[Point]:
    plan = QUICK if quick else ScalingPlan()
    points, task = [], progress.add_task("", total=len(CURVES) * len(plan.sizes))
    for k, curve in enumerate(CURVES):
        progress.update(task, description=f"scaling: {curve}", completed=k * len(plan.sizes))
        for point in measure_curve(curve, plan, threads):
            points.append(point)
            progress.advance(task)
    return points


def _write(done: report.BenchmarkRun, args: argparse.Namespace) -> None:
    picture = None
    if args.json is not None:
        write_json(args.json, report.as_json(done))
    if args.plot is not None:
        plot.draw(done.points, args.plot)
    if args.docs is not None:
        if args.plot is not None:
            picture = Path(os.path.relpath(args.plot, args.docs.parent)).as_posix()
        before = args.docs.read_text(encoding="utf-8") if args.docs.exists() else ""
        args.docs.write_text(report.as_page(done, picture) + report.by_hand(before), encoding="utf-8")
    for path in (args.json, args.plot, args.docs):
        if path is not None:
            print(f"wrote {path}")


def _check_paths(args: argparse.Namespace) -> None:
    for path in (args.json, args.plot, args.docs):
        if path is not None:
            check_parent(path)
            if path.is_dir():
                raise ValueError(f"cannot write {path}: it is a folder; add the name of a file")
    if args.plot is not None and args.plot.suffix not in _PICTURES:
        raise ValueError(f"--plot draws {', '.join(_PICTURES)} files, found {args.plot.name!r}")
