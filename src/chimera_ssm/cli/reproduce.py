"""`chimera reproduce`: a comparison of models, from training to the table."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chimera_ssm.studies.study import Study

EXAMPLE = "chimera reproduce images --docs docs/results/images.md"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    parser.add_argument("study", nargs="?", metavar="STUDY", help="what to compare; none: a list of studies")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of its runs; runs/<study> if omitted")
    parser.add_argument("--data", metavar="DATA", help="in place of the study's: a name, or a folder with these data")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help=f"runs at a time, which share the cores ({cores})")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the report there, too")


def run(args: argparse.Namespace) -> None:
    """Conduct a study, or go on with it, and write its report."""
    import rich
    from rich.markdown import Markdown

    from chimera_ssm.studies import all_studies, find_study
    from chimera_ssm.studies.report import markdown
    from chimera_ssm.training.checkpoints import write_durably

    if args.study is None:
        for name, study in all_studies().items():
            rich.print(f"[bold]{name}[/]: {study.doc}")
        return
    if args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, found {args.jobs}")
    study, folder = find_study(args.study), args.out or Path("runs") / args.study
    if args.data is not None:
        study = replace(study, recipe=replace(study.recipe, data=args.data))
    results = _conduct(study, folder, args.jobs)
    text = f"# {args.study.capitalize()}\n\n{markdown(study, results, f'chimera reproduce {args.study}')}"
    figures = {f"{args.study}-{name}.png": draw(study, results, folder) for name, draw in study.figures.items()}
    text += "".join(f"\n![{name.removesuffix('.png')}]({name})\n" for name in figures)
    for path in (folder / "report.md", args.docs):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, lambda file: file.write(text.encode()))
            for name, figure in figures.items():
                figure.savefig(path.parent / name, dpi=120)
    _write_json(folder / "results.json", {name: asdict(result) for name, result in results.items()})
    rich.print(Markdown(text))
    rich.print(f"report: {folder / 'report.md'}")


def _conduct(study: Study, folder: Path, jobs: int) -> dict:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from chimera_ssm.studies.conduct import conduct, count_steps

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("runs", total=count_steps(study))
        try:
            return conduct(
                study, folder, jobs, lambda line: console.print(line, highlight=False), lambda _: progress.advance(bar)
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None


def _write_json(path: Path, values: object) -> None:
    import json

    from chimera_ssm.training.checkpoints import write_durably

    text = json.dumps(values, indent=2) + "\n"
    write_durably(path, lambda file: file.write(text.encode()))
