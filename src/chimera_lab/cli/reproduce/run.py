"""Run the studies that a table needs and write the report; list tables and studies; measure the cost."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich
import torch

from chimera_lab import studies
from chimera_lab.cli.options import given_settings
from chimera_lab.cli.reports import write_report
from chimera_lab.cli.reproduce import DEFAULT_MACHINE, DEFAULT_OUT, cost, page
from chimera_lab.cli.reproduce.duration import announce
from chimera_lab.cli.study_runner import run_with_progress
from chimera_lab.studies.report import Block, markdown, report
from chimera_lab.studies.study import Study
from chimera_lab.studies.tables import TABLES
from chimera_lab.training.files import write_json
from chimera_lab.training.recipe import RuntimeConfig
from chimera_ssm.errors import unknown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = "cost"


def run(args: argparse.Namespace) -> None:
    """Run what a table needs, or continue it, and write its report."""
    if args.name is None:
        _refuse(
            args,
            "name a table or study, or for a list of them",
            "scale",
            "data",
            "out",
            "jobs",
            "docs",
            "dry_run",
            "section",
        )
        _print_list()
    elif args.name == COST:
        _refuse(
            args,
            "cost is measured on data that come with the package or on synthetic data:",
            "data",
            "jobs",
            "dry_run",
            "section",
        )
        cost.run(args)
    else:
        _run_studies(args)


def _run_studies(args: argparse.Namespace) -> None:
    if args.name not in (names := dict.fromkeys([*TABLES, COST, *studies.all_studies()])):
        raise ValueError(unknown_name("table or study", args.name, names))
    machine, jobs = replace(DEFAULT_MACHINE, **given_settings(args, RuntimeConfig())), _jobs(args)
    chosen = studies.find_studies(args.name, args.scale)
    if args.section is not None:
        chosen = {name: _part(study, *args.section) for name, study in chosen.items()}
    if args.data is not None:
        data = str(Path(args.data).expanduser().absolute())  # runs are resumed from any folder
        chosen = {name: study.on(data) for name, study in chosen.items()}
    command = f"chimera reproduce {args.name}"
    command += "".join(f" --section {shlex.quote(title)}" for title in args.section or ())
    command += f" --scale {args.scale}" * bool(args.scale) + " --data FOLDER" * bool(args.data)
    if args.dry_run:
        for name, study in chosen.items():
            announce(name, study, args.out / name)
        return
    outputs = _Outputs()
    for name, study in chosen.items():
        outputs.add(name, study, args.out / name, jobs, machine, command)
    outputs.write(args)


def _part(study: Study, *titles: str) -> Study:
    """Some sections of a study."""
    known = {section.title.casefold(): section.title for section in study.sections}
    for title in titles:
        if title.casefold() not in known:
            raise ValueError(unknown_name("section", title, known.values()))
    return study.part(*(known[title.casefold()] for title in titles))


@dataclass
class _Outputs:
    """What the studies of a table contribute to the report, the page, the figures and the JSON file."""

    blocks: list[Block] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)

    def add(self, name: str, study: Study, folder: Path, jobs: int, machine: RuntimeConfig, command: str) -> None:
        """Run one study and collect its outputs."""
        countdown = announce(name, study, folder)
        results, follow_ups = run_with_progress(study, folder, jobs, machine, countdown.finish)
        blocks = report(study, results, command, follow_ups)
        self.blocks += blocks
        self.html += page.study_html(study, blocks, folder)
        self.figures |= {f"{name}-{what}.png": draw(study, results, folder) for what, draw in study.figures.items()}
        self.results |= {name: results, **{f"{name}/{task}": rows for task, rows in follow_ups.items()}}

    def write(self, args: argparse.Namespace) -> None:
        """Write the report as Markdown and as a page, and all figures as JSON."""
        title = TABLES[args.name].doc if args.name in TABLES else args.name.capitalize()
        text = f"# {title}\n\n{markdown(self.blocks)}"
        text += "".join(f"\n![{name.removesuffix('.png')}]({name})\n" for name in self.figures)
        write_report(text, args.out / f"{args.name}.md", args.docs, self.figures)
        write_json(args.out / f"{args.name}.json", self.results)
        path = args.out / f"{args.name}.html"
        path.write_text(page.document(title, self.html), encoding="utf-8")
        print(f"with learning curves and influence maps: {path}")


def _refuse(args: argparse.Namespace, reason: str, *names: str) -> None:
    """Refuse options that would have no effect: those of ``names``, and how to compute."""
    given = [name for name in names if getattr(args, name) not in (None, DEFAULT_OUT)]
    given += given_settings(args, RuntimeConfig())
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(f"{reason} leave {options} out")


def _print_list() -> None:
    rich.print("Tables of the paper, at a laptop's scale or with --scale paper:")
    for name, table in TABLES.items():
        rich.print(f"  [bold]{name}[/]: {table.doc}")
    rich.print(f"  [bold]{COST}[/]: section 6: the time of a training step, about 1.5 times a Transformer's")
    rich.print("Whole studies; most tables are sections of them:")
    for name, study in studies.all_studies().items():
        if name not in TABLES:
            rich.print(f"  [bold]{name}[/]: {study.doc}")


def _jobs(args: argparse.Namespace) -> int:
    if args.jobs is None:
        uses_devices = torch.cuda.is_available() or getattr(args, "devices", 1) not in (1, None)
        return 1 if uses_devices else os.cpu_count() or 1
    if args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, found {args.jobs}")
    return args.jobs
