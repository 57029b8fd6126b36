"""Losses of graph tasks, as the Long Range Graph Benchmark defines them. Labels that are missing do not count."""

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
    """Cross-entropy in which the share of other classes in the batch is the weight of a class.

    ``labels [n]`` are classes, negative where there is none; ``logits [n, classes]``.
    """
    known = labels >= 0
    logits, labels = logits[known], labels[known]
    if labels.unique().numel() < 2:  # all weights would be zero
        return F.cross_entropy(logits, labels, reduction="sum") / max(len(labels), 1)
    weight = 1 - torch.bincount(labels, minlength=logits.shape[1]).to(logits.dtype) / len(labels)
    return F.cross_entropy(logits, labels, weight)


def _check_shape(predictions: Tensor, labels: Tensor) -> None:
    if predictions.shape != labels.shape:
        raise ValueError(f"labels must have shape {list(predictions.shape)}, found {list(labels.shape)}")
