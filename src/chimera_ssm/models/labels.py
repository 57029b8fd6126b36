"""Checks of the labels of image and text models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.ops.plain import transformed

#: Label of positions that are not predicted.
IGNORED = -100


def check_labels(labels: Tensor, config: Any) -> None:
    """Raise a ValueError unless labels are classes from 0 to ``num_labels − 1``, or −100, where these are expected.

    On GPUs the values are not looked at: the check would wait for them.
    """
    if labels.is_floating_point() or config.problem_type not in (None, "single_label_classification"):
        return
    if labels.device.type != "cpu" or config.num_labels < 2 or not labels.numel() or _values_are_unknown():
        return
    low, high = (int(value) for value in labels.aminmax())
    if high >= config.num_labels or (low < 0 and ((labels < 0) & (labels != IGNORED)).any()):
        raise ValueError(
            f"labels must be classes from 0 to {config.num_labels - 1}, as num_labels={config.num_labels}, found "
            f"{low} to {high}; number the classes from 0, or build the model with more num_labels"
        )


def _values_are_unknown() -> bool:
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or transformed()
