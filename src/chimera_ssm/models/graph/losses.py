"""Losses of graph tasks, as the Long Range Graph Benchmark defines them. Missing labels are ignored."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def absolute_error(predictions: Tensor, labels: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Mean of ``|predictions − labels| / scale`` over labels that are not NaN, ``[B, targets]``."""
    _check_shape(predictions, labels)
    known = ~labels.isnan()
    error = (predictions - labels.nan_to_num()).abs() / scale
    return (error * known).sum() / known.sum().clamp(min=1)


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of labels 0 and 1 that are not NaN, ``[B, labels]``."""
    _check_shape(logits, labels)
    labels = labels.to(logits.dtype)
    known = ~labels.isnan()
    loss = F.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    return (loss * known).sum() / known.sum().clamp(min=1)


def weighted_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy in which a class is weighted by the share of the other classes in the batch.

    ``labels [n]`` are classes, negative where unknown; ``logits [n, classes]``.
    """
    _check_classes(logits, labels)
    known = labels >= 0
    logits, labels = logits[known], labels[known]
    if labels.unique().numel() < 2:  # all weights would be zero
        return F.cross_entropy(logits, labels, reduction="sum") / max(len(labels), 1)
    weight = 1 - torch.bincount(labels, minlength=logits.shape[1]).to(logits.dtype) / len(labels)
    return F.cross_entropy(logits, labels, weight)


def _check_shape(predictions: Tensor, labels: Tensor) -> None:
    if predictions.shape != labels.shape:
        raise ValueError(f"labels must have shape {list(predictions.shape)}, found {list(labels.shape)}")


def _check_classes(logits: Tensor, labels: Tensor) -> None:
    """Raise a ValueError unless there is a class for each prediction, negative where unknown."""
    if labels.shape != logits.shape[:1]:
        remedy = "; remove the last dimension with .squeeze(1)" if labels.shape == (len(logits), 1) else ""
        raise ValueError(f"labels must have shape [{len(logits)}], a class each, found {list(labels.shape)}{remedy}")
    if labels.dtype != torch.long:
        raise ValueError(f"classes must be int64, found {labels.dtype}; convert them with .long()")
    if len(labels) and (highest := int(labels.max())) >= logits.shape[1]:
        raise ValueError(
            f"classes must be below num_labels={logits.shape[1]}, found {highest}; build the model with more labels, "
            "or number the classes from 0"
        )
