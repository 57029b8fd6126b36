"""Inputs of graph models: tensors, or ``Data`` and ``Batch`` of PyG."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def read_inputs(
    config: Any,
    x: Any,
    edge_index: Tensor | None,
    edge_attr: Tensor | None,
    batch: Tensor | None,
    positions: Tensor | None,
) -> tuple[Any, ...]:
    """The arguments from ``x`` on; where they are ``None``, the fields of ``x`` if that is a ``Data`` or ``Batch``."""
    data = x
    if hasattr(data, "edge_index"):
        x = data.x
        edge_index = data.edge_index if edge_index is None else edge_index
        edge_attr = data.edge_attr if edge_attr is None else edge_attr
        batch = getattr(data, "batch", None) if batch is None else batch
        if positions is None and config.position_features:
            positions = getattr(data, "positions", None)
    if edge_index is None:
        raise ValueError(
            f"edge_index is missing: expected x and edge_index, or PyG's Data, found {type(data).__name__}"
        )
    return x, edge_index, edge_attr, batch, positions
