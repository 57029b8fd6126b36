"""Directed acyclic graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from chimera_ssm.topology.edge_list import EdgeList


class DAG(EdgeList):
    """A directed acyclic graph; self-loops are cycles.

    Args:
        num_nodes: T.
        edge_index: ``[2, E]``, row 0 the source j and row 1 the target i of each edge; the order is preserved.
    """

    def __init__(self, num_nodes: int, edge_index: torch.Tensor | np.ndarray | Sequence):
        super().__init__(num_nodes, edge_index)
        _ = self._levels  # computed now, so that a cycle is refused here

    @property
    def is_acyclic(self) -> bool:
        return True

    def dags(self) -> tuple[DAG]:
        """Itself."""
        return (self,)
