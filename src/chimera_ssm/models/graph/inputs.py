"""Inputs of graph models: tensors, or ``Data`` and ``Batch`` of PyG."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.topology.from_edge_index import Wiring, join


def read_inputs(
    config: Any,
    x: Any,
    edge_index: Tensor | None,
    edge_attr: Tensor | None,
    batch: Tensor | None,
    positions: Tensor | None,
    wiring: Wiring | None,
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
        wiring = _stored_wiring(data, edge_index, batch) if wiring is None else wiring
    if edge_index is None:
        raise ValueError(
            f"edge_index is missing: expected x and edge_index, or PyG's Data, found {type(data).__name__}"
        )
    return x, edge_index, edge_attr, batch, positions, wiring


@torch.compiler.disable  # depends on values, like `wire`
def _stored_wiring(data: Any, edge_index: Tensor | None, batch: Tensor | None) -> Wiring | None:
    """The topology that a transform stored in ``data``, if it is still that of these nodes, edges and graphs."""
    wiring = getattr(data, "wiring", None)
    if isinstance(wiring, list):  # a batch has one for each graph, and none for a graph without nodes
        known = [w for w in wiring if w]
        wiring = join(known) if known else None
    if not wiring or edge_index is None:
        return None
    wiring = wiring.to(edge_index.device)
    return wiring if wiring.fits(edge_index, len(data.x), batch) else None
