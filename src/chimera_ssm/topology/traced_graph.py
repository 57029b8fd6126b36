"""A graph whose edges are an input of the program that is being exported."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology.graph import Graph


class TracedGraph(Graph):
    """A graph of unknown structure: sizes may be symbolic, and edges are known when the exported program runs.

    There are no checks, and duplicate edges are not merged.

    Args:
        num_nodes: T.
        edge_index: ``[2, E]``.
    """

    def __init__(self, num_nodes: int, edge_index: Tensor):
        self.__dict__.update(
            key="", num_nodes=num_nodes, num_edges=edge_index.shape[1], num_parts=1, traced=edge_index,
            device=edge_index.device, _entry=None,
        )  # fmt: skip

    @property
    def is_traced(self) -> bool:
        return True

    @property
    def is_acyclic(self) -> bool:
        return False  # as far as is known

    def dags(self, *args: object, **options: object) -> tuple:
        """Not known: the structure is an input of the program."""
        raise TopologyError(
            "a graph cannot be divided into DAGs in a program whose input its edges are: export a mixer with "
            "OnGraph(), or on a fixed Graph(num_nodes, edge_index)"
        )

    def traced_tensor(self, name: str, device: torch.device) -> Tensor:
        if name == "edge_index":
            return self.__dict__["traced"]
        return super().traced_tensor(name, device)
