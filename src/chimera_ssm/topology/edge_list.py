"""Topologies with an explicit list of edges, and their encoding as text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from zlib import compress, decompress

import numpy as np
import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology.base import Array, Topology, read_only
from chimera_ssm.topology.checks import check_edges, check_num_nodes

if TYPE_CHECKING:
    from typing_extensions import Self


class EdgeList(Topology):
    """A topology with any edges, in the order given.

    Args:
        num_nodes: T.
        edge_index: ``[2, E]``, row 0 the source j and row 1 the target i of each edge; the order is preserved.
    """

    def __init__(self, num_nodes: int, edge_index: torch.Tensor | np.ndarray | Sequence):
        num_nodes = check_num_nodes(num_nodes)
        source, target = check_edges(num_nodes, edge_index)
        ends = read_only(source), read_only(target)
        super().__init__(self.key_of(num_nodes, *ends), num_nodes, source.size, _ends=ends)

    @classmethod
    def key_of(cls, num_nodes: int, source: Array, target: Array) -> str:
        """The key of the topology with these edges."""
        digest = blake2b(_bytes(num_nodes, source, target), digest_size=16).hexdigest()
        return f"{cls.__name__}({num_nodes}, {source.size}, {digest!r})"

    @classmethod
    def from_spec(cls, num_nodes: int, *edges: Any) -> Self:
        """The topology with the edges that `encode_edges` wrote."""
        if len(edges) > 1:
            raise TopologyError(
                f"this {cls.__name__} is gone, and its key has only a digest of its edges; keep a reference to it"
            )
        return cls(num_nodes, decode_edges(num_nodes, edges[0]))

    def _write_spec(self) -> str:
        return f"{type(self).__name__}({self.num_nodes}, {encode_edges(self.num_nodes, *self._ends)!r})"

    def _find_ends(self) -> tuple[Array, Array]:
        return self.entry.content["_ends"]  # a compiled function created this topology from its key

    def flip(self) -> Self:
        """The same with every edge reversed, in the same edge order."""
        (flipped,) = self.related(type(self), _flip)
        return flipped


def _flip(topology: EdgeList) -> tuple[Any]:
    return (type(topology)(topology.num_nodes, topology._edge_index[::-1]),)


def encode_edges(num_nodes: int, source: Array, target: Array) -> str:
    """Edges as text."""
    return b64encode(compress(_bytes(num_nodes, source, target))).decode()


def decode_edges(num_nodes: int, text: str) -> Array:
    """The edges ``[2, E]`` that `encode_edges` wrote."""
    return np.frombuffer(decompress(b64decode(text)), _dtype(num_nodes)).reshape(2, -1)


def _bytes(num_nodes: int, source: Array, target: Array) -> bytes:
    return np.stack([source, target]).astype(_dtype(num_nodes)).tobytes()


def _dtype(num_nodes: int) -> str:
    return "<i4" if num_nodes <= 1 << 31 else "<i8"
