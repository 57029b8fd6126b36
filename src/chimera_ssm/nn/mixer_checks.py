"""Checks of a mixer's sizes and inputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from chimera_ssm.errors import TopologyError
from chimera_ssm.nn.kinds import KINDS, Kind
from chimera_ssm.ops import Neumann, Solver
from chimera_ssm.topology import Line, Topology


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise a ValueError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, found {value!r}")


def check_is_kind(kind: object) -> None:
    """Raise a ValueError unless ``kind`` is an instance of a class of kinds."""
    if isinstance(kind, Kind):
        return
    if isinstance(kind, type) and issubclass(kind, Kind):
        raise ValueError(f"kind must be an instance, found the class {kind.__name__}: write kind={kind.__name__}()")
    calls = ", ".join(f"{known}()" for known in KINDS)
    raise ValueError(f"kind must be one of {calls}, or of your own subclass of Kind; found {kind!r}")


def check_sizes(width: int, num_heads: int, groups: int, edge_dim: int | None, kind: Kind) -> None:
    """Raise a ValueError if the sizes of a mixer do not fit each other or its kind."""
    if width % num_heads:
        raise ValueError(f"the inner width {width} (expand · dim) must be divisible by num_heads, found {num_heads}")
    if num_heads % groups:
        raise ValueError(f"num_heads must be divisible by groups, found {num_heads} heads and {groups} groups")
    if edge_dim is not None and not kind.edge_features:
        raise ValueError(f"{type(kind).__name__} has no edge features; leave edge_dim out, or use OnGraph or OnDAG")


def check_limits(limits: Sequence[float] | None) -> None:
    """Raise a ValueError unless ``limits`` is a range of steps."""
    if limits is not None and not (len(limits) == 2 and 0 <= limits[0] < limits[1]):
        raise ValueError(f"dt_limit must be the smallest and the largest step, 0 ≤ smallest < largest, found {limits}")


def check_nodes(x: Tensor, topology: Topology, dim: int, node_mask: Tensor | None) -> None:
    """Check features ``[..., T, dim]`` and the mask ``[..., T]``."""
    check_floating("x", x)
    if x.dim() < 2 or x.shape[-2:] != (topology.num_nodes, dim):
        raise ValueError(
            f"x must have shape [..., {topology.num_nodes}, {dim}], a row for each node of {topology!r}, "
            f"found {list(x.shape)}"
        )
    if node_mask is not None:
        if node_mask.dtype != torch.bool or node_mask.shape[-1:] != (topology.num_nodes,):
            raise ValueError(
                f"node_mask must be boolean, [..., {topology.num_nodes}], True where there is a node, "
                f"found {node_mask.dtype}, {list(node_mask.shape)}"
            )
        _check_lead("node_mask", node_mask.shape[:-1], x.shape[:-2])


def check_floating(name: str, features: Tensor) -> None:
    """Raise a ValueError unless features are floating point."""
    if not features.is_floating_point():
        raise ValueError(f"{name} must be floating point, found {features.dtype}; embed integers first")


def check_dtype(name: str, x: Tensor, layer: nn.Module | None) -> None:
    """Raise a ValueError if features do not have the precision of the layer that projects them.

    Autocast converts them, and quantized layers have weights of other types.
    """
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or x.dtype == weight.dtype or not weight.is_floating_point():
        return
    if not torch.is_autocast_enabled(x.device.type):
        raise ValueError(
            f"{name} must be {weight.dtype}, as the weights of the layer are, found {x.dtype}; convert {name} with "
            f".to({weight.dtype}), or the layer with .to({x.dtype})"
        )


def check_edges(x: Tensor, topology: Topology, edge_dim: int | None, edge_attr: Tensor | None) -> None:
    """Check edge features ``[..., E, edge_dim]``."""
    if edge_attr is None:
        if edge_dim is not None:
            raise ValueError(
                f"edge_attr is missing: this layer was made with edge_dim={edge_dim}; pass edge_attr "
                f"[{topology.num_edges}, {edge_dim}], a row for each edge, or leave edge_dim out"
            )
        return
    if edge_dim is None:
        raise ValueError(
            f"edge_attr needs a layer with edge_dim, found edge_dim=None and edge_attr {list(edge_attr.shape)}; make "
            "it with edge_dim, or leave edge_attr out"
        )
    check_floating("edge_attr", edge_attr)
    if edge_attr.shape[-2:] != (topology.num_edges, edge_dim):
        raise ValueError(
            f"edge_attr must have shape [..., {topology.num_edges}, {edge_dim}], found {list(edge_attr.shape)}"
        )
    _check_lead("edge_attr", edge_attr.shape[:-2], x.shape[:-2])


def check_edge_weights(x: Tensor, topology: Topology, kind: Kind, edge_weight: Tensor | None) -> None:
    """Check edge weights ``[..., E]``."""
    if edge_weight is None:
        return
    if not kind.edge_weights:
        raise ValueError(f"edge_weight needs a mixer with kind=OnGraph(), found {type(kind).__name__}")
    if not edge_weight.is_floating_point() or edge_weight.shape[-1:] != (topology.num_edges,):
        raise ValueError(
            f"edge_weight must be floating point, [..., {topology.num_edges}], a weight for each edge of {topology!r}, "
            f"found {edge_weight.dtype}, {list(edge_weight.shape)}"
        )
    _check_lead("edge_weight", edge_weight.shape[:-1], x.shape[:-2])


def check_recurrent(kind: Kind, edge_dim: int | None, solver: Solver | None) -> None:
    """Raise a ValueError if a mixer has no recurrent form."""
    if not kind.streams:
        raise ValueError(
            f"only causal mixers have a recurrent form: OnLine, OnDAG and OnGraph on a directed line; this one is "
            f"{type(kind).__name__}, whose nodes also depend on later ones"
        )
    if edge_dim is not None:
        raise ValueError(
            f"the recurrent form does not support edge features, and this mixer has edge_dim={edge_dim}; "
            "call it on the whole line, or build it without edge_dim"
        )
    if isinstance(solver, Neumann):
        raise ValueError(
            f"the recurrent form is exact, and this mixer approximates by {solver}; "
            "call it on the whole line, or build it without a solver"
        )


def check_lines(topology: Topology) -> None:
    """Raise a `TopologyError` unless the topology is a line, or a batch of lines, that can be continued at its end."""
    if not all(isinstance(part, Line) and not part.reverse for part in topology.parts):
        raise TopologyError(
            "a state enters the first node of a directed line and leaves the last: it needs a Line or a batch of "
            f"lines, found {topology!r}; leave state and return_state out for other topologies"
        )


def _check_lead(name: str, found: Sequence[int], lead: Sequence[int]) -> None:
    """Raise a ValueError if leading dimensions do not broadcast to those of ``x``."""
    pairs = zip(reversed(found), reversed(lead), strict=False)
    if len(found) > len(lead) or any(n not in (1, m) for n, m in pairs):
        raise ValueError(
            f"the leading dimensions of {name} must broadcast to those of x, {list(lead)}, found {list(found)}; "
            f"reshape {name} like x, with 1 where it is the same for all"
        )
