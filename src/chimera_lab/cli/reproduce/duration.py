"""How many runs a study has and how long they take: before it starts, and after each run."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from chimera_lab.studies.duration import expected_seconds
from chimera_lab.studies.runner import count_steps
from chimera_lab.studies.study import Section, Study


class Countdown:
    """The runs that are left, and how long they take.

    Args:
        seconds: expected time of each of these runs, by folder.
    """

    def __init__(self, seconds: Mapping[Path, float]):
        self.left, self.count, self.total = dict(seconds), len(seconds), sum(seconds.values())
        self.begin = monotonic()

    def finish(self, folder: Path) -> str:
        """Note that a run ended: ``run 3 of 18, about 40 min left``; empty for other folders."""
        if self.left.pop(folder, None) is None:
            return ""
        expected = sum(self.left.values())
        # The runs that ended show how long the others really take.
        slowdown = (monotonic() - self.begin) / max(self.total - expected, 1e-9)
        words = f"run {self.count - len(self.left)} of {self.count}"
        return f"{words}, about {in_words(slowdown * expected)} left" if self.left else words


def in_words(seconds: float) -> str:
    """``40 min``, or ``3 h 20 min``."""
    minutes = max(1, math.ceil(seconds / 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _trained(section: Section) -> int:
    return sum(row.changes is not None for row in section.rows)


def announce(name: str, study: Study, folder: Path) -> Countdown:
    """Print how many runs there are, how long they take, and the data they need."""
    print(f"{name}: {study.doc}")
    print(f"data: {study.recipe.data}; runs in {folder}, where the same command continues after an interruption")
    runs = len(study.rows) * (len(study.learning_rates) + study.seeds)
    fine_tuning = sum(len(part.rows) * (len(part.learning_rates) + part.seeds) for part in study.then.values())
    evaluations = count_steps(study) - runs - fine_tuning
    further = f", {fine_tuning} of fine-tuning" * bool(fine_tuning) + f", {evaluations} evaluations" * bool(evaluations)
    print(f"{len(study.rows)} models, {runs} training runs{further}", flush=True)
    if len(study.shown) > 1:
        titles = ", ".join(f"{section.title!r} {_trained(section)}" for section in study.shown)
        print(f"sections for --section, with the number of models: {titles}")
    if study.is_papers_task:
        print(f"at the paper's scale: `chimera plan {study.recipe_name}` estimates time, memory and price on GPUs")
        return Countdown({})
    load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    print("measuring a few training steps of each model that is left …", flush=True)
    countdown = Countdown(expected_seconds(study, folder))
    if not countdown.count:
        print("all training runs are finished")
        return countdown
    print(
        f"{countdown.count} training runs are left, about {in_words(countdown.total)} if this machine does nothing else"
    )
    if load > cores / 2:
        print(
            f"other processes use this machine now (load {load:.1f} on {cores} cores): the estimate may be several "
            "times too high"
        )
    return countdown
