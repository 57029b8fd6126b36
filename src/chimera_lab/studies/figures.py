"""Plots of a study; each is a function of the study, its results and the folder of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean, pstdev
from typing import TYPE_CHECKING

from chimera_lab.studies.report import known
from chimera_lab.studies.study import run_folder
from chimera_lab.training.records import read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from chimera_lab.studies.results import RowResult
    from chimera_lab.studies.study import Study


def against_distance(study: Study, results: Mapping[str, RowResult], folder: Path) -> Figure:
    """The metric of each row over its evaluations, whose names begin with a number: a panel for each section.

    Each line is narrower than the one below it, so that equal values hide none.
    """
    figure, panels = _panels(len(study.shown))
    colours = {name: f"C{number % 10}" for number, name in enumerate(results)}
    for axes, section in zip(panels, study.shown, strict=True):
        titles = list(section.evaluations)
        for above, row in zip(reversed(range(len(section.rows))), section.rows, strict=True):
            name = (study.same(row) or row).name
            values = {title: known(results[name].figures[title][study.metric]) for title in titles}
            places = [int(title.split()[0]) for title in titles if values[title]]
            middle, spread = ([100 * f(v) for v in values.values() if v] for f in (mean, pstdev))
            line = axes.errorbar(places, middle, spread, label=name, color=colours[name], capsize=2, elinewidth=1)
            line[0].set(marker="o", linewidth=1 + 0.5 * above, markersize=3 + 0.5 * above)
        axes.set(xlabel=" ".join(titles[0].split()[1:]), ylim=(0, 105))
    panels[0].set(ylabel=f"{study.metric}, %")
    labels = {text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="outside right upper", fontsize="small")
    return figure


def learning_curves(study: Study, results: Mapping[str, RowResult], folder: Path) -> Figure:
    """The metric of each row during training, one line per seed."""
    figure, (axes,) = _panels(1)
    for number, model in enumerate(results):
        for seed in range(study.seeds):
            evaluations = read_table(run_folder(folder, model, f"seed-{seed}") / "metrics.csv")
            if not evaluations:  # it diverged before the first evaluation
                continue
            (column,) = (name for name in evaluations[0] if name.endswith(f"_{study.metric}"))
            epochs, values = ([float(row[name]) for row in evaluations] for name in ("epoch", column))
            axes.plot(epochs, values, color=f"C{number}", marker=".", label="_" if seed else model)
    axes.set(xlabel="epoch", ylabel=study.metric)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _panels(number: int) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side that share their vertical axis."""
    from matplotlib.figure import Figure  # no pyplot: no window, no global state

    figure = Figure(figsize=(6 + 3 * number, 4), layout="constrained")
    panels = list(figure.subplots(1, number, sharey=True, squeeze=False)[0])
    for axes in panels:
        axes.grid(alpha=0.3)
    return figure, panels
