"""GLUE from one trained model: each task with several seeds, and the average over tasks, as in the paper's table 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

from chimera_lab.data.glue import TASKS
from chimera_lab.recipes import Scale, find_recipe
from chimera_lab.studies.report import spread
from chimera_lab.studies.results import TEST, RowResult
from chimera_lab.studies.study import Row, Section, Study
from chimera_ssm.errors import unknown_name

#: Small tasks that may start from the model that was trained on MNLI.
AFTER_MNLI = ("rte", "mrpc", "stsb")
_ROW = "fine-tuned"


def glue_studies(
    start: str, tasks: Iterable[str], seeds: int, scale: Scale | None, after_mnli: bool, **changes: Any
) -> dict[str, Study]:
    """A study for each task, by name, with the settings of its recipe and no sweep.

    Args:
        start: the run of the pretrained model.
        tasks: names of tasks.
        seeds: number of seeds.
        scale: scale of the recipes.
        after_mnli: whether RTE, MRPC and STS-B start from the MNLI model of the same seed.
        changes: further settings, such as the data.
    """
    for name in (tasks := list(tasks)):
        if name not in TASKS:
            raise ValueError(unknown_name("task", name, TASKS))
    if after_mnli and "mnli" not in tasks:
        raise ValueError(f"MNLI is to come first, but is not among the tasks: {', '.join(tasks)}")
    changes |= {"from_": start}
    studies = {name: _study(name, seeds, scale, changes) for name in tasks}
    if after_mnli:
        later = {name: _study(name, seeds, scale, changes | {"from_": _ROW}) for name in AFTER_MNLI if name in tasks}
        studies["mnli"] = replace(studies["mnli"], then=later)
        studies = {name: study for name, study in studies.items() if name not in later}
    return studies


def _study(name: str, seeds: int, scale: Scale | None, changes: Mapping[str, Any]) -> Study:
    metric, *also = TASKS[name].metrics
    recipe = find_recipe(f"text/glue-{name}", scale)
    return Study(
        doc=f"Fine-tuning on {TASKS[name].folder}.",
        recipe_name=f"text/glue-{name}",
        recipe=replace(recipe, eval_every=10**9, **changes),  # evaluated at the end alone
        sections=(Section(TASKS[name].folder, (Row(_ROW),)),),
        metric=metric,
        also=tuple(also),
        learning_rates=(),
        seeds=seeds,
        matched=changes["from_"] != _ROW,  # no run of that name to count: it is yet to be made
    )


def glue_table(results: Mapping[str, Mapping[str, RowResult]]) -> str:
    """The metrics of each task, and the average over tasks of the first one of each."""
    lines = ["| task | development set | mean ± standard deviation | seeds |", "|---|---|---|---|"]
    firsts = []
    for name, task in TASKS.items():
        if name in results:
            figures = results[name][_ROW].figures[TEST]
            firsts.append(figures[task.metrics[0]])
            for metric in task.metrics:
                cells = task.folder, metric, spread(figures[metric], metric), str(len(figures[metric]))
                lines.append(f"| {' | '.join(cells)} |")
    averages = [mean(seed) for seed in zip(*firsts, strict=True)]
    what = f"average of {len(firsts)} tasks", "the first metric of each", spread(averages, ""), str(len(averages))
    return "\n".join([*lines, f"| {' | '.join(what)} |"]) + "\n"
