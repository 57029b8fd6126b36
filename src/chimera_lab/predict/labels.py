"""From logits to columns of values."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from chimera_lab.data.molecules import LABELS, REGRESSION


def columns(logits: Tensor, problem: str, names: list[str]) -> list[dict[str, Any]]:
    """For each row of logits its columns: values, probabilities of labels, or a class and the probabilities of all."""
    if problem == REGRESSION:
        return [dict(zip(names, row, strict=True)) for row in logits.float().tolist()]
    if problem == LABELS:
        return [dict(zip(names, row, strict=True)) for row in logits.float().sigmoid().tolist()]
    found = []
    for row in logits.float().softmax(-1).tolist():
        best = max(range(len(row)), key=row.__getitem__)
        each = {f"probability of {name}": p for name, p in zip(names, row, strict=True)}
        found.append({"class": names[best], "probability": row[best], **each})
    return found


def class_names(config: Any) -> list[str]:
    """The names of the outputs; numbers where a configuration has transformers' placeholders."""
    names = [str(config.id2label[k]) for k in range(config.num_labels)]
    return [str(k) for k in range(len(names))] if all(n == f"LABEL_{k}" for k, n in enumerate(names)) else names
