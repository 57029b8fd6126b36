"""GLUE: sentences, and pairs of them, with a class or a score each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from chimera_lab.data.files import read_lines
from chimera_lab.data.samples import Samples


@dataclass(frozen=True)
class GlueSpec:
    """A task of GLUE, and where its parts are in the official files.

    Attributes:
        folder: of its files.
        texts: columns of the sentence, or of the two.
        label: column of the class or score.
        classes: names, as in the files; none: a score from 0 to 5.
        metrics: the first is the one of the paper's table.
        dev: file of the development set, which is what tables of GLUE without a submission are made on.
        header: names of the columns where the files have no header.
        hub_texts: columns in `datasets`, where their names differ.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    classes: tuple[str, ...] = ("0", "1")
    metrics: tuple[str, ...] = ("accuracy",)
    dev: str = "dev.tsv"
    header: tuple[str, ...] = ()
    hub_texts: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        """Whether the labels are scores."""
        return not self.classes


_PAIR = ("sentence1", "sentence2")
_ENTAILED = ("entailment", "not_entailment")

TASKS = {
    "cola": GlueSpec(
        "CoLA", ("sentence",), "label", metrics=("matthews",), header=("source", "label", "mark", "sentence")
    ),
    "sst2": GlueSpec("SST-2", ("sentence",), "label"),
    "mrpc": GlueSpec("MRPC", ("#1 String", "#2 String"), "Quality", metrics=("f1", "accuracy"), hub_texts=_PAIR),
    "qqp": GlueSpec("QQP", ("question1", "question2"), "is_duplicate", metrics=("accuracy", "f1")),
    "stsb": GlueSpec("STS-B", _PAIR, "score", classes=(), metrics=("spearman", "pearson")),
    "mnli": GlueSpec("MNLI", _PAIR, "gold_label", ("entailment", "neutral", "contradiction"), dev="dev_matched.tsv"),
    "qnli": GlueSpec("QNLI", ("question", "sentence"), "label", _ENTAILED),
    "rte": GlueSpec("RTE", _PAIR, "label", _ENTAILED),
}


class Texts(NamedTuple):
    """Sentences or pairs of them, each a tuple, and their labels: int64 classes or float32 scores."""

    texts: list[tuple[str, ...]]
    labels: Tensor


def load_glue(name: str, data: str) -> tuple[Texts, Texts]:
    """Training and development set of a task.

    Args:
        name: one of `TASKS`.
        data: a folder with the official tsv files, of this task or with a folder for each; or ``glue`` to have them
            through `datasets`.
    """
    task = TASKS[name]
    home = Path(data).expanduser()
    for folder in (home / task.folder, home):
        if (folder / "train.tsv").is_file():
            train = read_tsv(folder / "train.tsv", task)
            if not (folder / task.dev).is_file():
                raise ValueError(f"{folder} has train.tsv and no {task.dev}: copy all official files there")
            return train, read_tsv(folder / task.dev, task)
    if data == "glue":
        return _of_hub(name)
    raise ValueError(
        f"{task.folder} was looked for as train.tsv and {task.dev} in {home / task.folder} and {home}, and is in "
        f"neither: copy the official files there"
    )


def read_tsv(path: Path, task: GlueSpec) -> Texts:
    """The rows of an official file. A few of QQP's lack columns; these are left out, as everyone does."""
    lines = (line.rstrip("\r\n").split("\t") for _, line in read_lines(path))
    header = list(task.header) or next(lines, [])
    missing = [name for name in (*task.texts, task.label) if name not in header]
    if missing:
        raise ValueError(
            f"{path} has no column {missing[0]!r}, but {', '.join(map(repr, header)) or 'nothing'}; is it the official "
            f"file of {task.folder}?"
        )
    places = [header.index(name) for name in task.texts]
    label = header.index(task.label)
    texts, labels, short = [], [], 0
    for number, row in enumerate(lines, start=1 if task.header else 2):
        if len(row) < len(header):
            short += 1
            continue
        texts.append(tuple(row[place] for place in places))
        labels.append(_label(row[label], task, f"line {number} of {path}"))
    if not texts:
        raise ValueError(f"{path} has no rows of {len(header)} columns")
    if short > max(1, len(texts) // 100):
        raise ValueError(f"{short} of {short + len(texts)} rows of {path} have fewer than {len(header)} columns")
    return Texts(texts, torch.tensor(labels))


def _label(text: str, task: GlueSpec, where: str) -> int | float:
    if task.is_regression:
        try:
            score = float(text)
        except ValueError:
            score = float("nan")
        if not 0 <= score <= 5:
            raise ValueError(f"the score must be a number from 0 to 5, found {text!r} in {where}")
        return score
    if text not in task.classes:
        raise ValueError(f"the label must be one of {', '.join(task.classes)}, found {text!r} in {where}")
    return task.classes.index(text)


def _of_hub(name: str) -> tuple[Texts, Texts]:
    from datasets import load_dataset

    task = TASKS[name]
    try:
        parts: Any = load_dataset("nyu-mll/glue", name)
    except Exception as error:  # network, hub: of many kinds
        raise ValueError(
            f"{task.folder} was looked for in datasets' cache and on the hub as nyu-mll/glue ({type(error).__name__}); "
            f"name the folder of the official tsv files with --data FOLDER"
        ) from error
    dev = "validation_matched" if name == "mnli" else "validation"
    train, test = (_of_dataset(parts[part], task) for part in ("train", dev))
    return train, test


def _of_dataset(part: Any, task: GlueSpec) -> Texts:
    columns = [part[name] for name in task.hub_texts or task.texts]
    return Texts(list(zip(*columns, strict=True)), torch.tensor(part["label"]))


class Tokenised(Samples):
    """Labelled texts as tokens: ``{"input_ids": […], "attention_mask": […], …, "labels": int or float}``.

    A batch is padded on the right to its longest text.

    Args:
        texts: to be tokenised, all at once.
        tokenizer: with which.
        length: texts with more tokens are cut.
    """

    def __init__(self, texts: Texts, tokenizer: Any, length: int):
        columns = [list(column) for column in zip(*texts.texts, strict=True)]
        self.encoded = tokenizer(*columns, truncation=True, max_length=length)
        self.texts, self.tokenizer = texts, tokenizer

    def __len__(self) -> int:
        return len(self.texts.labels)

    def sample(self, index: int) -> dict[str, Any]:
        tokens = {name: values[index] for name, values in self.encoded.items()}
        return {**tokens, "labels": self.texts.labels[index].item()}

    def content(self, index: int) -> bytes:
        return repr((self.texts.texts[index], self.texts.labels[index].item())).encode()

    @property
    def labels(self) -> Tensor | None:
        return None if self.texts.labels.is_floating_point() else self.texts.labels

    def collate(self, samples: Sequence[Any]) -> Any:
        return dict(self.tokenizer.pad(list(samples), padding_side="right", return_tensors="pt"))
