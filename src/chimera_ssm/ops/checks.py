"""Checks of arguments: an error says what was found, what was expected and what to do."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.topology import Topology


def list_arguments(topology: Any, *arguments: Any) -> tuple[list, ...]:
    """Every argument of `mix` as a list with one entry for each topology."""
    if isinstance(topology, Topology):
        return [topology], *([x] for x in arguments)
    topologies = list(topology)
    if not topologies:
        raise TopologyError("mix needs at least one topology, found an empty sequence")
    for t in topologies:
        _check_topology(t)
    lists = [[None] * len(topologies) if x is None else list(x) for x in arguments]
    for name, x in zip(("weight", "C", "B", "scale"), lists, strict=True):
        if len(x) != len(topologies):
            raise ValueError(f"{name} must have one entry for each of the {len(topologies)} topologies, found {len(x)}")
    return topologies, *lists


def _check_tensor(name: str, x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} must be a tensor, found {type(x).__name__}")
    if not x.is_floating_point():
        raise ValueError(f"{name} must be floating point, found {x.dtype}; convert it with .float()")
    if 0 in x.shape[:-1]:
        raise ValueError(f"{name} is empty, found shape {list(x.shape)}: leave empty batches out")


def _check_topology(topology: Topology) -> None:
    if not isinstance(topology, Topology):
        raise TopologyError(f"expected a topology such as Line(8) or Graph(num_nodes, edge_index), found {topology!r}")


def check_weight(topology: Topology, weight: Tensor) -> None:
    """Refuse weights that do not fit the edges of a topology, ``[..., H, E]``."""
    _check_topology(topology)
    _check_tensor("weight", weight)
    if weight.dim() < 2 or weight.shape[-1] != topology.num_edges:
        raise ValueError(
            f"weight must have shape [..., H, {topology.num_edges}], a weight for each edge of {topology!r}, "
            f"found {list(weight.shape)}"
        )


def check_nodes(name: str, x: Tensor, topology: Topology, heads: str, columns: str) -> None:
    """Refuse a tensor that does not have a row for each node, ``[..., heads, T, columns]``."""
    _check_tensor(name, x)
    if x.dim() < 3 or x.shape[-2] != topology.num_nodes:
        raise ValueError(
            f"{name} must have shape [..., {heads}, {topology.num_nodes}, {columns}], a row for each node of "
            f"{topology!r}, found {list(x.shape)}"
        )


def check_equal_heads(weight: Tensor, name: str, x: Tensor) -> None:
    """Refuse weights and a tensor with different numbers of heads or on different devices."""
    if weight.shape[-2] != x.shape[-3]:
        raise ValueError(f"weight and {name} must have equally many heads, found {weight.shape[-2]} and {x.shape[-3]}")
    if weight.device != x.device:
        raise ValueError(f"weight and {name} must be on one device, found {weight.device} and {x.device}")


def _part_sizes(topology: Topology) -> tuple[int, ...]:
    return tuple(topology.part_sizes.tolist())


def check_mixes(topologies: list, weights: list, Cs: list, Bs: list, V: Tensor, scales: Any) -> None:
    """Refuse arguments of `mix` that do not fit each other."""
    if len(topologies) > 1 and len({t.cached(_part_sizes) for t in topologies}) > 1:
        raise TopologyError(f"topologies of one mix must share their nodes, found {topologies}")
    for t, w, c, b, s in zip(topologies, weights, Cs, Bs, scales, strict=True):
        _check_mix(t, w, c, b, V, s)


def _check_mix(topology: Topology, weight: Tensor, C: Tensor, B: Tensor, V: Tensor, scale: Tensor | None) -> None:
    check_weight(topology, weight)
    for name, x, heads, columns in (("C", C, "G", "N"), ("B", B, "G", "N"), ("V", V, "H", "P")):
        check_nodes(name, x, topology, heads, columns)
    check_equal_heads(weight, "V", V)
    if C.shape[-3:] != B.shape[-3:]:
        raise ValueError(f"C and B must have the same groups and state size, found {list(C.shape)}, {list(B.shape)}")
    H, G = V.shape[-3], C.shape[-3]
    if H % G:
        raise ValueError(f"the number of heads must be divisible by the number of groups, found {H} heads, {G} groups")
    if scale is None:
        return
    _check_tensor("scale", scale)
    if scale.shape[-2:] != (H, topology.num_nodes):
        raise ValueError(f"scale must have shape [..., {H}, {topology.num_nodes}], found {list(scale.shape)}")
