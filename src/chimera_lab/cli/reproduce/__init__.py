"""`chimera reproduce`: a table of the paper, or another comparison, from training to the report."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from chimera_lab.studies.results import RowResult
    from chimera_lab.studies.study import Study
    from chimera_lab.training.recipe import RuntimeConfig

COST, _OUT = "cost", Path("runs")

EXAMPLE = """chimera reproduce                           (lists tables and studies)
  chimera reproduce topology                  (the paper's table 3, at a laptop's scale)
  chimera reproduce glue --data FOLDER        (with folders wikitext-2 and glue in it)
  chimera reproduce imagenet --scale paper --data IMAGENET --devices 8 --precision bf16
  chimera reproduce cost                      (time of a training step, against Transformers)
  chimera reproduce images --docs docs/results/images.md"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options of the command."""
    from chimera_lab.cli.train import add_settings
    from chimera_lab.training.recipe import RuntimeConfig
    from chimera_lab.training.settings import keys

    parser.usage = "chimera reproduce [NAME] [--scale paper] [--data FOLDER] [--out FOLDER] …"
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a table or study; none: a list of them")
    parser.add_argument("--scale", choices=("paper", "laptop"), help="of a table; the laptop's if omitted")
    parser.add_argument("--data", metavar="FOLDER", help="of the data sets; where the recipes look for them if omitted")
    parser.add_argument("--out", type=Path, default=_OUT, metavar="FOLDER", help=f"of studies and reports ({_OUT})")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="runs at a time, which share the cores; as many as cores, one on GPUs"
    )
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the report there, too")
    add_settings(parser, "how to compute each run", keys(RuntimeConfig), _machine(None))


def run(args: argparse.Namespace) -> None:
    """Conduct what a table needs, or go on with it, and write its report."""
    if args.name is None:
        _refuse(args, "name a table or study, or for a list of them", "scale", "data", "out", "jobs", "docs")
        return _list()
    if args.name == COST:
        from chimera_lab.cli.reproduce import cost

        _refuse(args, "cost is measured here, on data that come with the package or on stand-ins:", "data", "jobs")
        return cost.run(args)

    from chimera_lab.cli.reproduce import page
    from chimera_lab.studies import all_studies, find_studies
    from chimera_lab.studies.report import Block, markdown, report
    from chimera_lab.studies.tables import TABLES
    from chimera_ssm.errors import unknown_name

    if args.name not in (names := dict.fromkeys([*TABLES, COST, *all_studies()])):
        raise ValueError(unknown_name("table or study", args.name, names))
    machine, jobs = _machine(args), _jobs(args)
    studies = find_studies(args.name, args.scale)
    if args.data is not None:
        data = str(Path(args.data).expanduser().absolute())  # runs are found again from any folder
        studies = {name: study.on(data) for name, study in studies.items()}
    command = f"chimera reproduce {args.name}"
    command += f" --scale {args.scale}" * bool(args.scale) + " --data FOLDER" * bool(args.data)
    blocks: list[Block] = []
    pieces: list[str] = []
    found: dict[str, Any] = {}
    figures: dict[str, Figure] = {}
    for name, study in studies.items():
        folder = args.out / name
        results, then = conduct_with_bar(study, folder, jobs, machine)
        part = report(study, results, command, then)
        blocks += part
        pieces += page.pieces(study, part, folder)
        figures |= {f"{name}-{what}.png": draw(study, results, folder) for what, draw in study.figures.items()}
        found |= {name: results, **{f"{name}/{task}": rows for task, rows in then.items()}}
    title = TABLES[args.name].doc if args.name in TABLES else args.name.capitalize()
    text = f"# {title}\n\n{markdown(blocks)}"
    text += "".join(f"\n![{name.removesuffix('.png')}]({name})\n" for name in figures)
    write_report(text, args.out / f"{args.name}.md", args.docs, figures)
    write_beside(args.out / f"{args.name}.json", found)
    path = args.out / f"{args.name}.html"
    path.write_text(page.document(title, pieces), encoding="utf-8")
    print(f"with curves and maps: {path}")


def _refuse(args: argparse.Namespace, words: str, *names: str) -> None:
    """Options that were typed in vain: those of ``names``, and how to compute."""
    from chimera_lab.cli.train import given
    from chimera_lab.training.recipe import RuntimeConfig

    typed = [name for name in names if getattr(args, name) not in (None, _OUT)] + [*given(args, RuntimeConfig())]
    if typed:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in typed)
        raise ValueError(f"{words} leave {options} out")


def _list() -> None:
    import rich

    from chimera_lab.studies import all_studies
    from chimera_lab.studies.tables import TABLES

    rich.print("Tables of the paper, at a laptop's scale or with --scale paper:")
    for name, table in TABLES.items():
        rich.print(f"  [bold]{name}[/]: {table.doc}")
    rich.print(f"  [bold]{COST}[/]: section 6: the time of a training step, about 1.5 times a Transformer's")
    rich.print("Whole studies, of which most tables are sections:")
    for name, study in all_studies().items():
        if name not in TABLES:
            rich.print(f"  [bold]{name}[/]: {study.doc}")


def _machine(args: argparse.Namespace | None) -> RuntimeConfig:
    """How a run is computed: on one device unless something else was typed."""
    from chimera_lab.cli.train import given
    from chimera_lab.training.recipe import RuntimeConfig

    return replace(RuntimeConfig(devices=1), **(given(args, RuntimeConfig()) if args else {}))


def _jobs(args: argparse.Namespace) -> int:
    if args.jobs is None:
        import torch

        several = torch.cuda.is_available() or getattr(args, "devices", 1) not in (1, None)
        return 1 if several else os.cpu_count() or 1
    if args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, found {args.jobs}")
    return args.jobs


def conduct_with_bar(
    study: Study, folder: Path, jobs: int, machine: RuntimeConfig
) -> tuple[dict[str, RowResult], dict[str, dict[str, RowResult]]]:
    """Conduct a study and what comes then; the results of both."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from chimera_lab.studies.runner import count_steps, run_study
    from chimera_lab.studies.workers import Workers
    from chimera_lab.training.kinds import create_task
    from chimera_lab.training.lock import held

    for part in study.then.values():
        if part.majority:
            create_task(part.recipe).majority()  # if its data are missing, say so before an hour of training
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("runs", total=count_steps(study))
        say, advance = lambda line: console.print(line, highlight=False), lambda _: progress.advance(bar)
        workers = Workers(jobs, say, advance, machine)
        try:
            with held(folder):
                results = run_study(study, folder, workers)
                before = folder, study
                return results, {name: run_study(s, folder / name, workers, before) for name, s in study.then.items()}
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None


def write_report(
    text: str, path: Path, docs: Path | None, figures: Mapping[str, Figure] = MappingProxyType({})
) -> None:
    """Print a report and keep it in a file, and in another if asked for, with its figures beside it."""
    import rich
    from rich.markdown import Markdown

    from chimera_lab.data.files import write_atomically

    for file in (path, docs):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lambda opened: opened.write(text.encode()))
            for name, figure in figures.items():
                figure.savefig(file.parent / name, dpi=120)
    rich.print(Markdown(text))
    print(f"report: {path}")


def write_beside(path: Path, found: Mapping[str, Any]) -> None:
    """All figures as JSON."""
    from chimera_lab.training.files import write_json

    write_json(path, found)
