"""Unions of acyclic graphs or of undirected paths are swept as one graph, with zero weights between the parts.

These keep numbers apart, but not NaN and infinities. Where such come up, the parts are solved one by one, so that what
is not finite in one graph does not reach the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from torch import Tensor

from chimera_ssm.topology import Topology


def needs_parts(topologies: Sequence[Topology], *values: Tensor | None) -> bool:
    """Whether some of ``values`` are not finite and may have come from another part.

    On other devices than a CPU they are not looked at, which would have to wait for the device.
    """
    if topologies[0].num_parts == 1 or not any(topology.cached(_is_swept) for topology in topologies):
        return False
    return not all(x is None or x.device.type != "cpu" or isfinite(x.detach().sum().item()) for x in values)


def _is_swept(topology: Topology) -> bool:
    return topology.is_acyclic or topology.undirected_paths is not None


def split_edges(topology: Topology, weight: Tensor) -> tuple[Tensor, ...]:
    """Weights ``[..., E]`` of each part."""
    return weight.split([part.num_edges for part in topology.parts], dim=-1)


def split_nodes(topology: Topology, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Rows of the nodes of each part; ``dim`` is that of the nodes."""
    return x.split(topology.part_sizes.tolist(), dim=dim)
