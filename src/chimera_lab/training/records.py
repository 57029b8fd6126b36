"""The records of a run: csv files without gaps or duplicates after a resumption, TensorBoard, curves."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera_lab.data.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch.utils.tensorboard import SummaryWriter


class CsvLog:
    """A csv file with one row per logged step; rows after ``step``, from which the run continues, are dropped.

    Args:
        path: the file.
        step: current step of the run.
    """

    def __init__(self, path: Path, step: int):
        self.path = path
        kept = [row for row in read_table(path) if int(row["step"]) <= step] if path.exists() else []
        self.columns = list(kept[0]) if kept else []
        write_atomically(path, lambda file: file.write(_text(self.columns, kept).encode()))
        self.file = open(path, "a", encoding="utf-8", newline="")  # noqa: SIM115  (open for the length of the run)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row; the first one determines the columns."""
        if not self.columns:
            self.columns = list(row)
            csv.writer(self.file).writerow(self.columns)
        csv.DictWriter(self.file, self.columns).writerow(row)
        self.file.flush()

    def sync(self) -> None:
        """Write all rows to disk, before a checkpoint that relies on them is written."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Sync and close."""
        self.sync()
        self.file.close()


def read_table(path: Path) -> list[dict[str, str]]:
    """The complete rows of a csv file of numbers; an incomplete last row, left by a killed process, is skipped."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))
        rows = [row for row in rows if None not in row and None not in row.values()]
        for row in rows:
            int(row["step"]), [float(value) for value in row.values()]
    except (ValueError, KeyError, csv.Error) as error:
        reason = "it has no column step" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is damaged ({reason}): restore it, or delete it and lose its rows") from None
    return rows


def _text(columns: list[str], rows: list[dict[str, str]]) -> str:
    lines = [columns, *([row[name] for name in columns] for row in rows)] if columns else []
    return "".join(",".join(line) + "\r\n" for line in lines)


class Records:
    """steps.csv, metrics.csv (a row for each evaluation) and TensorBoard's files of a run.

    Args:
        folder: folder of the run.
        step: current step of the run.
    """

    def __init__(self, folder: Path, step: int):
        self.folder = folder
        self.steps, self.evaluations = CsvLog(folder / "steps.csv", step), CsvLog(folder / "metrics.csv", step)
        self.board = _board(folder / "tensorboard", step)

    def add_step(self, row: dict[str, Any]) -> None:
        """A row of steps.csv."""
        self.steps.add(row)
        self._show(row, "step")

    def add_evaluation(self, row: dict[str, Any]) -> None:
        """A row of metrics.csv."""
        self.evaluations.add(row)
        self._show(row, "epoch")

    def _show(self, row: dict[str, Any], group: str) -> None:
        for name, value in row.items():
            if name not in ("step", "epoch"):
                self.board.add_scalar(f"{group}/{name}", float(value), row["step"])

    def sync(self) -> None:
        """Write everything to disk."""
        self.steps.sync()
        self.evaluations.sync()
        self.board.flush()

    def close(self) -> None:
        """Close the files and draw the curves."""
        self.steps.close()
        self.evaluations.close()
        self.board.close()
        draw_curves(self.folder)


def _board(folder: Path, step: int) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)


def draw_curves(folder: Path) -> None:
    """Draw curves.png from metrics.csv: a panel per metric, with a line per variant."""
    rows = read_table(folder / "metrics.csv")
    if not rows:
        return
    curves(rows).savefig(folder / "curves.png", dpi=110)


def curves(rows: list[dict[str, str]]) -> Figure:
    """A panel for each metric, a curve for each part of the data and for averaged weights.

    Each curve is narrower than the one below it, so that equal values hide none.
    """
    from matplotlib.figure import Figure  # no pyplot: no window, no global state

    panels: dict[str, list[str]] = {}
    for name in rows[0]:
        if name not in ("step", "epoch", "seconds"):
            panels.setdefault(_panel(name), []).append(name)
    colours = {label: f"C{k}" for k, label in enumerate(dict.fromkeys(_label(n) for ns in panels.values() for n in ns))}
    steps = [int(row["step"]) for row in rows]
    figure = Figure(figsize=(4.5 * len(panels), 3.5), layout="constrained")
    for axes, (title, names) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for above, name in zip(reversed(range(len(names))), names, strict=True):
            label, values = _label(name), [float(row[name]) for row in rows]
            axes.plot(steps, values, label=label, color=colours[label], linewidth=1.5 + above, marker=".")
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def _label(name: str) -> str:
    """``test_loss_ema`` → ``test, averaged weights``."""
    return name.partition("_")[0] + ", averaged weights" * name.endswith("_ema")


def _panel(name: str) -> str:
    """``train_loss``, ``test_loss_ema`` → ``loss``."""
    return name.removesuffix("_ema").partition("_")[2] or name
