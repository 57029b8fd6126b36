"""What every parameterisation of A needs: gathering node values on edges, summing edges at nodes, masks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chimera_ssm.topology import Topology


class Adjacency(NamedTuple):
    """Edge weights and the factor of B̄: all that a topology needs to become a mixer.

    Attributes:
        weight: ``A[target[e], source[e]]`` for each edge, ``[..., H, E]``.
        scale: β with ``B̄_i = β_i B_i``, ``[..., H, T]``.
    """

    weight: Tensor
    scale: Tensor


def inverse_softplus(x: Tensor) -> Tensor:
    """The y with ``softplus(y) = x``, for x > 0, accurate for small and for large x."""
    return x + torch.log(-torch.expm1(-x))


def at(values: Tensor, index: Tensor) -> Tensor:
    """``values[..., index]``: node values ``[..., T]`` brought to edges ``[..., E]``."""
    return values.gather(-1, index.expand(*values.shape[:-1], index.shape[-1]))


def sum_at(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Edge values ``[..., E]`` summed at the nodes ``index`` that they belong to, ``[..., size]``."""
    return values.new_zeros(*values.shape[:-1], size).scatter_add(-1, index.expand_as(values), values)


def ends(topology: Topology, device: torch.device) -> tuple[Tensor, Tensor]:
    """Source and target of each edge, ``[E]`` each."""
    source, target = topology.tensors("edge_index", device)
    return source, target


def edges_alive(topology: Topology, node_mask: Tensor | None) -> Tensor | None:
    """Whether both ends of each edge are present, ``[..., 1, E]``; ``None`` if there is no mask."""
    if node_mask is None:
        return None
    source, target = ends(topology, node_mask.device)
    return (at(node_mask, source) & at(node_mask, target)).unsqueeze(-2)


def check_steps(name: str, steps: Tensor, topology: Topology) -> Tensor:
    """Steps ``[..., H, T]`` as float32 at least."""
    return _check(name, steps, topology.num_nodes, "nodes", topology)


def check_edge_steps(steps: Tensor, topology: Topology) -> Tensor:
    """Steps ``[..., H, E]`` as float32 at least."""
    return _check("edge_step", steps, topology.num_edges, "edges", topology)


def check_edge_weight(edge_weight: Tensor | None, topology: Topology) -> Tensor | None:
    """Weights ``[..., H, E]``, not negative, as float32 at least."""
    if edge_weight is None:
        return None
    edge_weight = _check("edge_weight", edge_weight, topology.num_edges, "edges", topology)
    if not torch.compiler.is_compiling() and edge_weight.numel() and not (least := edge_weight.min()) >= 0:
        raise ValueError(
            f"edge_weight must not be negative, found {least.item():.6g}; use edge_attr for signed features"
        )
    return edge_weight


def _check(name: str, steps: Tensor, size: int, what: str, topology: Topology) -> Tensor:
    steps = check_floating(name, steps)
    if steps.dim() < 2 or steps.shape[-1] != size:
        raise ValueError(
            f"{name} must have shape [..., H, {size}] for the {size} {what} of {topology!r}, found {list(steps.shape)}"
        )
    return steps


def check_floating(name: str, x: Tensor) -> Tensor:
    """A floating-point tensor as float32 at least."""
    if not x.is_floating_point():
        raise ValueError(f"{name} must be floating point, found {x.dtype}; convert it with .float()")
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_mask(node_mask: Tensor | None, topology: Topology) -> Tensor | None:
    """A boolean mask ``[..., T]``, True where there is a node."""
    if node_mask is None:
        return None
    if node_mask.dtype != torch.bool:
        raise ValueError(f"node_mask must be boolean, True where there is a node, found {node_mask.dtype}")
    if node_mask.shape[-1:] != (topology.num_nodes,):
        raise ValueError(
            f"node_mask must have shape [..., {topology.num_nodes}] for {topology!r}, found {list(node_mask.shape)}"
        )
    return node_mask
