"""Fine-tune on each GLUE task and write the table."""

from __future__ import annotations

import argparse

from chimera_lab.cli.glue import SETTINGS
from chimera_lab.cli.reports import write_report
from chimera_lab.cli.study_runner import run_with_progress
from chimera_lab.studies.glue import glue_studies, glue_table
from chimera_lab.studies.results import RowResult
from chimera_lab.training.recipe import RuntimeConfig


def run(args: argparse.Namespace) -> None:
    """Fine-tune on each task, or continue where an earlier call stopped, and write the table."""
    for name in ("seeds", "jobs"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} must be at least 1, found {getattr(args, name)}")
    folder = args.out or args.run / "glue"
    changes = {name: getattr(args, name) for name in SETTINGS if hasattr(args, name)}
    studies = glue_studies(
        str(args.run.absolute()), args.tasks, args.seeds, args.scale, args.after_mnli, data=args.data, **changes
    )
    results: dict[str, dict[str, RowResult]] = {}
    for name, study in studies.items():
        results[name], follow_ups = run_with_progress(study, folder / name, args.jobs, RuntimeConfig(devices=1))
        results |= follow_ups
    text = f"# GLUE\n\nMeasured by `{args.command_line}`.\n\n{glue_table(results)}"
    write_report(text, folder / "report.md", args.docs)
