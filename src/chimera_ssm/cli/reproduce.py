"""`chimera reproduce`: a comparison of models, from training to the table."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from chimera_ssm.studies.conduct import RowResult
    from chimera_ssm.studies.study import Study

EXAMPLE = """chimera reproduce images --docs docs/results/images.md
  chimera reproduce text --data FOLDER         (with folders wikitext-2 and glue in it)"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    parser.add_argument("study", nargs="?", metavar="STUDY", help="what to compare; none: a list of studies")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of its runs; runs/<study> if omitted")
    parser.add_argument("--data", metavar="FOLDER", help="of the data sets; where the recipes look for them if omitted")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help=f"runs at a time, which share the cores ({cores})")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the report there, too")


def run(args: argparse.Namespace) -> None:
    """Conduct a study, or go on with it, and write its report."""
    import json

    import rich

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
    study, command = (study.on(args.data), " --data FOLDER") if args.data else (study, "")
    results, then = conduct_with_bar(study, folder, args.jobs)
    report = markdown(study, results, f"chimera reproduce {args.study}{command}", then)
    figures = {f"{args.study}-{name}.png": draw(study, results, folder) for name, draw in study.figures.items()}
    report += "".join(f"\n![{name.removesuffix('.png')}]({name})\n" for name in figures)
    write_report(f"# {args.study.capitalize()}\n\n{report}", folder, args.docs, figures)
    everything = results if not then else {args.study: results, **then}
    text = json.dumps(everything, indent=2, default=asdict) + "\n"
    write_durably(folder / "results.json", lambda file: file.write(text.encode()))


def conduct_with_bar(
    study: Study, folder: Path, jobs: int
) -> tuple[dict[str, RowResult], dict[str, dict[str, RowResult]]]:
    """Conduct a study and what comes then; the results of both."""
    for part in study.then.values():
        if part.majority:
            part.recipe.task().majority()  # if its data are missing, say so before an hour of training
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from chimera_ssm.studies.conduct import conduct, count_steps

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("runs", total=count_steps(study))
        how = jobs, lambda line: console.print(line, highlight=False), lambda _: progress.advance(bar)
        try:
            results = conduct(study, folder, *how)
            return results, {name: conduct(s, folder / name, *how, before=folder) for name, s in study.then.items()}
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None


def write_report(
    text: str, folder: Path, docs: Path | None, figures: Mapping[str, Figure] = MappingProxyType({})
) -> None:
    """Print a report and keep it in the folder, and elsewhere if asked for, with its figures beside it."""
    import rich
    from rich.markdown import Markdown

    from chimera_ssm.training.checkpoints import write_durably

    for path in (folder / "report.md", docs):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, lambda file: file.write(text.encode()))
            for name, figure in figures.items():
                figure.savefig(path.parent / name, dpi=120)
    rich.print(Markdown(text))
    rich.print(f"report: {folder / 'report.md'}")
