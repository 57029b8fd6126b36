"""The three verbs, `mask`, `solve` and `mix`: checks, broadcasting and precision; the work is the solvers'."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.solvers import operators
from chimera_ssm.solvers.base import Solver
from chimera_ssm.solvers.checking import check_finite
from chimera_ssm.solvers.forms import Term, mix_by_mask, mix_by_states
from chimera_ssm.solvers.select import exact_solver, require, select_solver
from chimera_ssm.topology import Topology

_SINGULAR = "I − A is singular or overflows: bound the weights, or use solver=Dense(), which pivots"
_INPUT = "look for the operation that made it"


def mask(topology: Topology, weight: Tensor, solver: Solver | None = None) -> Tensor:
    """The resolvent ``L = (I − A)⁻¹`` as a matrix.

    Args:
        topology: T nodes and E edges.
        weight: ``A[target[e], source[e]]``, ``[..., H, E]``.
        solver: the fastest exact one if omitted.

    Returns:
        ``[..., H, T, T]``, in the dtype of ``weight``, computed in float32 at least.
    """
    _check_weight(topology, weight)
    return (operators.mask if torch.compiler.is_compiling() else mask_now)(topology, weight, solver)


def mask_now(topology: Topology, weight: Tensor, solver: Solver | None) -> Tensor:
    """`mask` of checked arguments."""
    dtype = _compute_dtype(weight)
    with torch.autocast(weight.device.type, enabled=False):
        resolvent = _pick(solver, topology).resolvent(topology, weight.to(dtype).flatten(0, -2))
        rows = resolvent.mask()
        plan = topology.tensors("block_plan", weight.device)
        if plan.shape[0] > 1:
            starts = plan.node.view(plan.shape)[topology.tensors("part", weight.device)]
            whole = rows.new_zeros(*rows.shape[:2], topology.num_nodes + 1)
            rows = whole.scatter(-1, starts.expand_as(rows), rows)[..., :-1]
    check_finite("the mask", rows, _SINGULAR)
    return rows.view(*weight.shape[:-1], *rows.shape[1:]).to(weight.dtype)


def solve(topology: Topology, weight: Tensor, rhs: Tensor, solver: Solver | None = None) -> Tensor:
    """The solution of ``(I − A) x = rhs``: what every node hears when each says its row of ``rhs``.

    Args:
        topology: T nodes and E edges.
        weight: ``A[target[e], source[e]]``, ``[..., H, E]``.
        rhs: ``[..., H, T, K]``.
        solver: the fastest exact one if omitted.

    Returns:
        ``L @ rhs``, ``[..., H, T, K]``, in the dtype of ``rhs``, computed in float32 at least.
    """
    _check_weight(topology, weight)
    _check_nodes("rhs", rhs, topology, "H", "K")
    _check_equal_heads(weight, "rhs", rhs)
    return (operators.solve if torch.compiler.is_compiling() else solve_now)(topology, weight, rhs, solver)


def solve_now(topology: Topology, weight: Tensor, rhs: Tensor, solver: Solver | None) -> Tensor:
    """`solve` of checked arguments."""
    dtype = _compute_dtype(weight, rhs)
    lead = _lead([weight.shape[:-1], rhs.shape[:-2]])
    with torch.autocast(rhs.device.type, enabled=False):
        flat = _flatten(weight.to(dtype), lead, 1)
        x = _pick(solver, topology).resolvent(topology, flat).solve(_flatten(rhs.to(dtype), lead, 2))
    check_finite("the solution", x, _SINGULAR)
    return x.reshape(*lead, *x.shape[1:]).to(rhs.dtype)


def mix(
    topology: Topology | Sequence[Topology],
    weight: Tensor | Sequence[Tensor],
    C: Tensor | Sequence[Tensor],
    B: Tensor | Sequence[Tensor],
    V: Tensor,
    scale: Tensor | Sequence[Tensor | None] | None = None,
    solver: Solver | None = None,
) -> Tensor:
    """The mixer ``y = (L ⊙ C B̄ᵀ) V`` with ``L = (I − A)⁻¹`` and ``B̄ = scale · B``.

    With sequences of topologies on the same nodes, and of weight, C, B and scale alike, the sum over them: masks
    are added before the product with V, and a tensor that is given twice is used once.

    Args:
        topology: T nodes and E edges, or several topologies.
        weight: ``A[target[e], source[e]]``, ``[..., H, E]``.
        C: ``[..., G, T, N]``, G groups of heads that share C and B; G divides H.
        B: ``[..., G, T, N]``.
        V: ``[..., H, T, P]``.
        scale: β, ``[..., H, T]``; 1 if omitted.
        solver: the fastest exact one if omitted.

    Returns:
        ``[..., H, T, P]``, in the dtype of ``V``, computed in float32 at least.
    """
    topologies, weights, Cs, Bs, scales = _listed(topology, weight, C, B, scale)
    for t, w, c, b, s in zip(topologies, weights, Cs, Bs, scales, strict=True):
        _check_mix(t, w, c, b, V, s)
    run = operators.mix if torch.compiler.is_compiling() else mix_now
    return run(topologies, weights, Cs, Bs, V, scales, solver)


def mix_now(
    topologies: list[Topology],
    weights: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    V: Tensor,
    scales: Sequence[Tensor | None],
    solver: Solver | None,
) -> Tensor:
    """`mix` of checked arguments, one of each for each topology."""
    tensors = [x for x in (*weights, *Cs, *Bs, *scales, V) if x is not None]
    dtype = _compute_dtype(*tensors)
    lead = _lead([x.shape[:-2] for x in (*weights, *scales) if x is not None] + [x.shape[:-3] for x in (*Cs, *Bs, V)])
    H, (N, P), G = V.shape[-3], (Cs[0].shape[-1], V.shape[-1]), Cs[0].shape[-3]
    choice = topologies[0].once(
        ("choice", *topologies[1:], N, P, G / H, solver), lambda: select_solver(topologies, N, P, G / H, solver)
    )
    with torch.autocast(V.device.type, enabled=False):
        once: dict[int, Tensor] = {}

        def flat(x: Tensor, kept: int) -> Tensor:
            if id(x) not in once:
                once[id(x)] = _flatten(x if x.dtype == dtype else x.to(dtype), lead, kept)
            return once[id(x)]

        terms = [
            Term(
                s.resolvent(t, flat(w, 2).flatten(0, 1)),
                flat(c, 3),
                flat(b, 3),
                None if a is None else flat(a, 2),
            )
            for s, t, w, c, b, a in zip(choice.solvers, topologies, weights, Cs, Bs, scales, strict=True)
        ]
        y = (mix_by_mask if choice.form == "mask" else mix_by_states)(terms, flat(V, 3))
    check_finite("the mix", y, _SINGULAR)
    return y.reshape(*lead, *y.shape[1:]).to(V.dtype)


def _pick(solver: Solver | None, topology: Topology) -> Solver:
    return exact_solver(topology)[0] if solver is None else require(solver, topology)


def _flatten(x: Tensor, lead: Sequence[int], kept: int) -> Tensor:
    """``x`` with its leading dimensions broadcast to ``lead`` and made one; the last ``kept`` stay."""
    here, tail = x.shape[: x.dim() - kept], x.shape[x.dim() - kept :]
    return (x if here == lead else x.expand(*lead, *tail)).reshape(prod(lead), *tail)


def _lead(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Leading dimensions, broadcast; most often they are equal, which is quick to see."""
    return shapes[0] if all(s == shapes[0] for s in shapes) else torch.broadcast_shapes(*shapes)


def _compute_dtype(*tensors: Tensor) -> torch.dtype:
    dtype = torch.float32
    for x in tensors:
        dtype = torch.promote_types(dtype, x.dtype)
    return dtype


# Checks: what was found, what was expected, what to do


def _listed(topology: Any, *arguments: Any) -> tuple[list, ...]:
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
    if len({t.found(_part_sizes) for t in topologies}) > 1:
        raise TopologyError(f"topologies of one mix must share their nodes, found {topologies}")
    return topologies, *lists


def _part_sizes(topology: Topology) -> tuple[int, ...]:
    return tuple(topology.part_sizes.tolist())


def _check_tensor(name: str, x: Tensor, remedy: str = _INPUT) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} must be a tensor, found {type(x).__name__}")
    if not x.is_floating_point():
        raise ValueError(f"{name} must be floating point, found {x.dtype}; convert it with .float()")
    check_finite(name, x, remedy)


def _check_topology(topology: Topology) -> None:
    if not isinstance(topology, Topology):
        raise TopologyError(f"expected a topology such as Line(8) or Graph(num_nodes, edge_index), found {topology!r}")


def _check_weight(topology: Topology, weight: Tensor) -> None:
    _check_topology(topology)
    _check_tensor("weight", weight)
    if weight.dim() < 2 or weight.shape[-1] != topology.num_edges:
        raise ValueError(
            f"weight must have shape [..., H, {topology.num_edges}], a weight for each edge of {topology!r}, "
            f"found {list(weight.shape)}"
        )


def _check_nodes(name: str, x: Tensor, topology: Topology, heads: str, columns: str) -> None:
    _check_tensor(name, x)
    if x.dim() < 3 or x.shape[-2] != topology.num_nodes:
        raise ValueError(
            f"{name} must have shape [..., {heads}, {topology.num_nodes}, {columns}], a row for each node of "
            f"{topology!r}, found {list(x.shape)}"
        )


def _check_equal_heads(weight: Tensor, name: str, x: Tensor) -> None:
    if weight.shape[-2] != x.shape[-3]:
        raise ValueError(f"weight and {name} must have equally many heads, found {weight.shape[-2]} and {x.shape[-3]}")
    if weight.device != x.device:
        raise ValueError(f"weight and {name} must be on one device, found {weight.device} and {x.device}")


def _check_mix(topology: Topology, weight: Tensor, C: Tensor, B: Tensor, V: Tensor, scale: Tensor | None) -> None:
    _check_weight(topology, weight)
    for name, x, heads, columns in (("C", C, "G", "N"), ("B", B, "G", "N"), ("V", V, "H", "P")):
        _check_nodes(name, x, topology, heads, columns)
    _check_equal_heads(weight, "V", V)
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
