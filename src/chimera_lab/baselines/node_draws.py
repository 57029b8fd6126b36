"""Random components of graph baselines: uniform numbers of the nodes, and orders of nodes within their graphs.

In training the numbers come from PyTorch's generator, which the training loop seeds in each step. In evaluation they
are those of a fixed table, row k for the k-th node of each graph: the output is a function of the graph alone,
whatever else is in the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chimera_ssm.models.graph.convolutions import GraphStructure


class Places(NamedTuple):
    """The graphs of a batch that have nodes, and where their nodes are.

    Attributes:
        sizes: nodes of each graph, ``[G]``.
        graph: graph of each node, ``[T]``, ascending.
        place: number of each node within its graph, ``[T]``.
    """

    sizes: Tensor
    graph: Tensor
    place: Tensor

    @classmethod
    def of(cls, structure: GraphStructure) -> Places:
        """The places of the nodes of a batch."""
        sizes = torch.tensor(structure.pyg_topology.topology.part_sizes, device=structure.edge_index.device)
        graph = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
        first = sizes.cumsum(0) - sizes
        return cls(sizes, graph, torch.arange(len(graph), device=sizes.device) - first[graph])

    @property
    def first(self) -> Tensor:
        """The first node of each graph, ``[G]``."""
        return self.sizes.cumsum(0) - self.sizes

    def draw(self, columns: int, training: bool) -> Tensor:
        """Numbers from 0 to below 1 for each node, ``[T, columns]``."""
        if training:
            return torch.rand(len(self.place), columns, device=self.place.device)
        fixed = torch.Generator().manual_seed(0)
        table = torch.rand(int(self.sizes.max()), columns, generator=fixed)
        return table.to(self.place.device)[self.place]

    def sort(self, key: Tensor) -> Tensor:
        """The nodes of each graph by ascending ``key [T]``, one graph after the other, ``[T]``."""
        order = key.argsort(stable=True)
        return order[self.graph[order].argsort(stable=True)]
