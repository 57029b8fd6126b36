"""`chimera bench`: ratios to attention and other baselines, measured in the same run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from chimera_lab.cli.bench.cases import Case
    from chimera_lab.cli.bench.measure import Result
    from chimera_lab.cli.bench.report import Run
    from chimera_lab.cli.bench.scaling import Point

EXAMPLE = "chimera bench --quick --only grid-14 molecules --json bench.json"

_SECONDS, _QUICK_SECONDS = 6.0, 1.0
_PICTURES = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    from chimera_lab.cli.bench.cases import CASES, MODELS

    parser.add_argument("--quick", action="store_true", help="about 1 s for each case instead of 6")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"these alone, of {', '.join(CASES | MODELS)}")
    parser.add_argument("--models", action="store_true", help="all whole models, too, minutes each")
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads of PyTorch; as many as it likes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw time and memory against size (minutes)")
    parser.add_argument("--docs", type=Path, metavar="FILE.md", help="write docs/performance.md from the figures")


def run(args: argparse.Namespace) -> None:
    """Measure, print the table, write what was asked for."""
    from chimera_lab.cli.bench import cases, report, table

    chosen = cases.pick(args.only, args.models)
    _check_paths(args)

    import rich
    from rich.console import Console

    if args.plot is not None or any(case.name == "planar" for case in chosen):
        import matplotlib  # noqa: F401  (if it is missing, say so before minutes of measuring)

    import torch

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    machine, seconds = report.describe_machine(), _QUICK_SECONDS if args.quick else _SECONDS
    with _progress() as progress:
        results = _measure(chosen, seconds, args.threads, progress)
        points = [] if args.plot is None else _scale(args.quick, torch.get_num_threads(), progress)
    console = rich.get_console()
    # A file or a pipe has no width of its own: do not squeeze the table.
    (console if console.is_terminal else Console(width=200)).print(table.rich_table(results))
    for result in results:
        if result.memory is not None:
            ours, theirs = (f"{b / 2**30:.2f} GiB" for b in result.memory)
            print(f"{result.case.name}: memory beyond the weights {ours}, {result.case.against} {theirs}")
    done = report.Run(args.command_line, torch.get_num_threads(), seconds, results, points, machine)
    _write(done, args)


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _measure(chosen: list[Case], seconds: float, threads: int | None, progress: Progress) -> list[Result]:
    from chimera_lab.cli.bench.alone import measure_alone

    results, task = [], progress.add_task("", total=len(chosen))
    for case in chosen:
        progress.update(task, description=case.name)
        results.append(measure_alone(case, seconds, threads))
        progress.advance(task)
    return results


def _scale(quick: bool, threads: int, progress: Progress) -> list[Point]:
    from chimera_lab.cli.bench.scaling import CURVES, QUICK, Plan, measure_curve

    plan = QUICK if quick else Plan()
    points, task = [], progress.add_task("", total=len(CURVES) * len(plan.sizes))
    for k, curve in enumerate(CURVES):
        progress.update(task, description=f"scaling: {curve}", completed=k * len(plan.sizes))
        for point in measure_curve(curve, plan, threads):
            points.append(point)
            progress.advance(task)
    return points


def _write(done: Run, args: argparse.Namespace) -> None:
    from chimera_lab.cli.bench import report
    from chimera_lab.cli.bench.plot import draw
    from chimera_lab.training.files import write_json

    picture = None
    if args.json is not None:
        write_json(args.json, report.as_json(done))
    if args.plot is not None:
        draw(done.points, args.plot)
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
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"cannot write {path}: there is no folder {path.parent}; create it first")
        if path is not None and path.is_dir():
            raise ValueError(f"cannot write {path}: it is a folder; add the name of a file")
    if args.plot is not None and args.plot.suffix not in _PICTURES:
        raise ValueError(f"--plot draws {', '.join(_PICTURES)} files, found {args.plot.name!r}")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)
