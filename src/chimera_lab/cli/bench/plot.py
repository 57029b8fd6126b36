"""The scaling plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chimera_lab.cli.bench.point import CURVES
from chimera_lab.cli.bench.scaling import Point


def draw(points: Sequence[Point], path: Path) -> None:
    """Two panels, log-log: time and peak extra memory of forward + backward against the number of nodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (time, memory) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for curve in CURVES:
        here = [p for p in points if p.curve == curve]
        style = {"color": "0.45", "linestyle": "--", "marker": "s"} if curve == "attention" else {"marker": "o"}
        nodes = [p.num_nodes for p in here]
        time.plot(nodes, [p.seconds for p in here], label=curve, markersize=4, **style)
        memory.plot(nodes, [p.bytes / 2**20 for p in here], label=curve, markersize=4, **style)
    time.set(title="time of forward + backward", ylabel="seconds")
    memory.set(title="peak extra memory", ylabel="MiB")
    for axes in (time, memory):
        axes.set(xlabel="nodes", yscale="log")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.tick_params("x", rotation=45)
        axes.grid(alpha=0.3)
    figure.legend(*time.get_legend_handles_labels(), loc="outside lower center", ncols=len(CURVES), frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
