"""Topologies whose edges are listed one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import registry
from chimera_ssm.topology.base import Array, Topology, check_edges, check_num_nodes, read_only

if TYPE_CHECKING:
    from typing_extensions import Self


class EdgeList(Topology):
    """A topology with any edges, in the order given.

    Args:
        num_nodes: T.
        edge_index: ``[2, E]``, row 0 the source j and row 1 the target i of each edge; the order is kept.
    """

    def __init__(self, num_nodes: int, edge_index: torch.Tensor | np.ndarray | Sequence):
        num_nodes = check_num_nodes(num_nodes)
        source, target = check_edges(num_nodes, edge_index)
        name = registry.digest(num_nodes, source, target)
        super().__init__(f"{type(self).__name__}({num_nodes}, {source.size}, {name!r})", num_nodes, source.size)
        self.__dict__["_ends"] = read_only(source), read_only(target)

    @classmethod
    def from_spec(cls, num_nodes: int, *edges: Any) -> Self:
        """The topology with edges as `registry.encode_edges` wrote them."""
        if len(edges) > 1:
            raise TopologyError(f"this {cls.__name__} is gone, and its key holds a digest of its edges only; keep it")
        return cls(num_nodes, registry.decode_edges(num_nodes, edges[0]))

    def _write_spec(self) -> str:
        return f"{type(self).__name__}({self.num_nodes}, {registry.encode_edges(self.num_nodes, *self._ends)!r})"

    def _find_ends(self) -> tuple[Array, Array]:
        return registry.topology_of(self.key)._ends  # made inside a compiled function, with a key only

    def flip(self) -> Self:
        """The same with every edge reversed, in the same edge order."""
        (flipped,) = self._relatives(type(self), _flip)
        return flipped


def _flip(topology: EdgeList) -> tuple[Any]:
    return (type(topology)(topology.num_nodes, topology._edge_index[::-1]).to(topology.device),)
