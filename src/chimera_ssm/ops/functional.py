"""The functional interface, `mask`, `solve` and `mix`: checks, broadcasting, precision and the choice of a solver.

With the automatic choice of a solver results are accurate to the condition of I − A. On acyclic topologies, and where
the row sums of |A| are below one, no pivoting is needed; elsewhere the pivots are checked, and heads that need it are
solved by dense LU with pivoting. A topology too large for that is refused with a ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.ops import custom_ops
from chimera_ssm.ops.autograd import values_wanted
from chimera_ssm.ops.bounded import BoundedCache
from chimera_ssm.ops.broadcasting import broadcast_lead, compute_dtype, flatten_lead, with_columns, without_autocast
from chimera_ssm.ops.checking import check_all_finite, check_finite
from chimera_ssm.ops.checks import check_equal_heads, check_mixes, check_nodes, check_weight, list_arguments
from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.cost import warn_if_expensive
from chimera_ssm.ops.mixing import mix_by_mask, mix_by_state, takes_half
from chimera_ssm.ops.plain import mask_plain, mix_plain, mix_states_plain, needs_plain_operators, solve_plain
from chimera_ssm.ops.select import Choice, exact_solver, require, select_solver
from chimera_ssm.ops.states import check_states, mix_states_now
from chimera_ssm.ops.terms import Term
from chimera_ssm.ops.unions import needs_parts, split_edges, split_nodes
from chimera_ssm.topology import Topology

_SINGULAR = "I − A is singular or overflows: bound the weights, for example by row sums of |A| below one"
_INPUT = "look for the operation that made it"


def mask(topology: Topology, weight: Tensor, solver: Solver | None = None) -> Tensor:
    """The resolvent ``L = (I − A)⁻¹`` as a matrix, accurate to the condition of I − A.

    Args:
        topology: T nodes and E edges.
        weight: ``A[target[e], source[e]]``, ``[..., H, E]``.
        solver: the fastest exact one if omitted; it pivots where that is needed.

    Returns:
        ``[..., H, T, T]``, in the dtype of ``weight``, computed in float32 at least.
    """
    check_weight(topology, weight)
    if needs_plain_operators(topology):
        return mask_plain(topology, weight, solver).to(weight.dtype)
    check_finite("weight", weight, _INPUT)
    return (custom_ops.mask if custom_ops.use_operators() else mask_now)(topology, weight, solver)


def mask_now(topology: Topology, weight: Tensor, solver: Solver | None) -> Tensor:
    """`mask` of checked arguments."""
    dtype = compute_dtype(weight)
    with without_autocast(weight):
        resolvent = _pick(solver, topology, weight).resolvent(topology, weight.to(dtype).flatten(0, -2))
        rows = resolvent.mask()
        if needs_parts([topology], rows):
            pieces = zip(topology.parts, split_edges(topology, weight), strict=True)
            return _block_diagonal([mask_now(*piece, solver) for piece in pieces])
        plan = topology.tensors("block_plan", weight.device)
        if plan.shape[0] > 1:
            starts = plan.node.view(plan.shape)[topology.tensors("part", weight.device)]
            whole = rows.new_zeros(*rows.shape[:2], topology.num_nodes + 1)
            rows = whole.scatter(-1, starts.expand_as(rows), rows)[..., :-1]
    check_finite("the mask", rows, _SINGULAR)
    return rows.view(*weight.shape[:-1], *rows.shape[1:]).to(weight.dtype)


def _block_diagonal(masks: list[Tensor]) -> Tensor:
    """Masks ``[..., S, S]`` of parts as one, ``[..., T, T]``."""
    sizes = [mask.shape[-1] for mask in masks]
    ends = accumulate(sizes)
    padded = [pad(x, (end - size, sum(sizes) - end)) for x, size, end in zip(masks, sizes, ends, strict=True)]
    return torch.cat(padded, dim=-2)


def solve(topology: Topology, weight: Tensor, rhs: Tensor, solver: Solver | None = None) -> Tensor:
    """Solve ``(I − A) x = rhs``.

    Args:
        topology: T nodes and E edges.
        weight: ``A[target[e], source[e]]``, ``[..., H, E]``.
        rhs: ``[..., H, T, K]``.
        solver: the fastest exact one if omitted; it pivots where that is needed.

    Returns:
        ``L @ rhs``, ``[..., H, T, K]``, in the dtype of ``rhs``, computed in float32 at least.
    """
    check_weight(topology, weight)
    check_nodes("rhs", rhs, topology, "H", "K")
    check_equal_heads(weight, "rhs", rhs)
    if needs_plain_operators(topology):
        return solve_plain(topology, weight, rhs, solver)
    check_all_finite({"weight": [weight], "rhs": [rhs]}, _INPUT)
    return (custom_ops.solve if custom_ops.use_operators() else solve_now)(topology, weight, rhs, solver)


def solve_now(topology: Topology, weight: Tensor, rhs: Tensor, solver: Solver | None) -> Tensor:
    """`solve` of checked arguments."""
    dtype = compute_dtype(weight, rhs)
    lead = broadcast_lead({"weight": weight.shape[:-1], "rhs": rhs.shape[:-2]})
    with without_autocast(rhs):
        flat = flatten_lead(weight.to(dtype), lead, 1)
        columns = with_columns(flatten_lead(rhs.to(dtype), lead, 2))
        x = _pick(solver, topology, weight).resolvent(topology, flat).solve(columns)
        x = x if rhs.shape[-1] else x[..., :0]
    if needs_parts([topology], x):
        pieces = zip(topology.parts, split_edges(topology, weight), split_nodes(topology, rhs, -2), strict=True)
        return torch.cat([solve_now(*piece, solver) for piece in pieces], dim=-2)
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
    initial_state: Tensor | None = None,
    return_state: bool = False,
) -> Any:
    """The mixer ``y = (L ⊙ C B̄ᵀ) V`` with ``L = (I − A)⁻¹`` and ``B̄ = scale · B``.

    With sequences of topologies on the same nodes, and of weight, C, B and scale alike, the sum over them: masks
    are added before the product with V, and a tensor that is given twice is used once. Accurate to the condition of
    I − A, pivoting where that is needed.

    Args:
        topology: T nodes and E edges, or several topologies.
        weight: ``A[target[e], source[e]]``, ``[..., H, E]``.
        C: ``[..., G, T, N]``, G groups of heads that share C and B; G divides H.
        B: ``[..., G, T, N]``.
        V: ``[..., H, T, P]``.
        scale: β, ``[..., H, T]``; 1 if omitted.
        solver: the fastest exact one if omitted; with states, all exact ones are the scan.
        initial_state: what enters the first node of a directed line, ``a h`` with the state h of a node before it and
            the weight a of the edge between them: ``[..., H, N, P]`` on a `Line`, ``[..., num_parts, H, N, P]`` on a
            batch of lines. Zero if omitted.
        return_state: whether to return the state ``h_t = a_t h_{t−1} + β_t B_t v_tᵀ`` after the last node of each line.

    Returns:
        ``[..., H, T, P]``, in the dtype of ``V``. Computed in float32 at least; but on GPUs, kernels of lines and grids
        take V, B and C in 16 bits as they are, with masks, states and sums in float32. With ``return_state`` a pair:
        that, and the state, of the shape of ``initial_state``, in float32 at least.

    Example:
        >>> y, state = mix(Line(T), weight, C, B, V, return_state=True)
        >>> next_y = mix(Line(1), weight[..., :0], next_C, next_B, next_V, initial_state=a * state)
    """
    topologies, weights, Cs, Bs, scales = list_arguments(topology, weight, C, B, scale)
    if initial_state is not None or return_state:
        check_mixes(topologies, weights, Cs, Bs, V, scales)
        check_states(topologies, Cs[0], V, initial_state, solver)
        run = custom_ops.mix_states if custom_ops.use_operators() else mix_states_now
        run = mix_states_plain if needs_plain_operators(*topologies) else run
        y, state = run(topologies[0], weights[0], Cs[0], Bs[0], V, scales[0], initial_state)
        return (y, state) if return_state else y
    if needs_plain_operators(*topologies):
        return mix_plain(topologies, weights, Cs, Bs, V, scales, solver)
    if custom_ops.use_operators():
        check_mixes(topologies, weights, Cs, Bs, V, scales)
        return custom_ops.mix(topologies, weights, Cs, Bs, V, scales, solver)
    return mix_now(topologies, weights, Cs, Bs, V, scales, solver)


def mix_now(
    topologies: list[Topology],
    weights: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    V: Tensor,
    scales: Sequence[Tensor | None],
    solver: Solver | None,
) -> Tensor:
    """`mix` with one of each argument for each topology."""
    # Checks and choices depend on shapes, dtypes and devices only.
    key = *topologies[1:], solver, *map(_signature, (*weights, *Cs, *Bs, *scales, V))
    plan = topologies[0].cached(_mix_plans)(key, lambda: _plan_mix(topologies, weights, Cs, Bs, V, scales, solver))
    check_all_finite({"weight": weights, "C": Cs, "B": Bs, "scale": scales, "V": [V]}, _INPUT)
    with without_autocast(V):
        terms, flat_V = _terms(plan, topologies, weights, Cs, Bs, V, scales)
        y = mix_by_mask(terms, flat_V) if plan.choice.form == "mask" else mix_by_state(terms, flat_V)
        y = y[..., : V.shape[-1]] if plan.empty else y
        y = y if plan.as_is else y.reshape(*plan.lead, *y.shape[1:])
    if needs_parts(topologies, *([y] if values_wanted() else [*weights, *Cs, *Bs, V, *scales])):
        return _mix_parts(topologies, weights, Cs, Bs, V, scales, solver)
    check_finite("the mix", y, _SINGULAR)
    return y if y.dtype == V.dtype else y.to(V.dtype)


def _mix_parts(
    topologies: list[Topology],
    weights: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    V: Tensor,
    scales: Sequence[Tensor | None],
    solver: Solver | None,
) -> Tensor:
    """`mix_now`, one part after the other."""
    union, count = topologies[0], topologies[0].num_parts

    def pieces(tensors: Sequence[Tensor | None], dim: int) -> list[list[Any]]:
        """For each part, its share of each tensor."""
        shares = [[None] * count if x is None else split_nodes(union, x, dim) for x in tensors]
        return [list(part) for part in zip(*shares, strict=True)]

    parts = [list(part) for part in zip(*(t.parts for t in topologies), strict=True)]
    edges = (split_edges(t, w) for t, w in zip(topologies, weights, strict=True))
    on_edges = [list(part) for part in zip(*edges, strict=True)]
    of_V = split_nodes(union, V, -2)
    shares = zip(parts, on_edges, pieces(Cs, -2), pieces(Bs, -2), of_V, pieces(scales, -1), strict=True)
    return torch.cat([mix_now(*share, solver) for share in shares], dim=-2)


def _mix_plans(topology: Topology) -> BoundedCache[_MixPlan]:
    return BoundedCache(64)


@dataclass(frozen=True)
class _MixPlan:
    """What follows from the shapes and dtypes of a mix.

    Attributes:
        lead: leading dimensions, broadcast.
        dtype: of weights and scales, float32 at least.
        operand_dtype: of V, C and B: the same, or 16 bits where kernels take these as they are.
        choice: solvers and form.
        algorithms: of the solvers on each topology.
        as_is: whether no tensor has to be converted or reshaped.
        empty: whether there are no states or no channels.
    """

    lead: tuple[int, ...]
    dtype: torch.dtype
    operand_dtype: torch.dtype
    choice: Choice
    algorithms: tuple[str, ...]
    as_is: bool
    empty: bool


def _plan_mix(topologies: list, weights: list, Cs: list, Bs: list, V: Tensor, scales: Any, solver: Any) -> _MixPlan:
    check_mixes(topologies, weights, Cs, Bs, V, scales)
    leads = {"V": V.shape[:-3]}
    for name, given, kept in (("weight", weights, 2), ("C", Cs, 3), ("B", Bs, 3), ("scale", scales, 2)):
        names = [name] if len(given) == 1 else [f"{name}[{k}]" for k in range(len(given))]
        leads |= {name: x.shape[:-kept] for name, x in zip(names, given, strict=True) if x is not None}
    lead = broadcast_lead(leads)
    tensors = [x for x in (*weights, *Cs, *Bs, *scales, V) if x is not None]
    dtype = compute_dtype(*tensors)
    N, P, groups_per_head = Cs[0].shape[-1], V.shape[-1], Cs[0].shape[-3] / V.shape[-3]
    choice = select_solver(topologies, N, P, groups_per_head, solver, V.device)
    if len(topologies) == 1:
        warn_if_expensive(topologies[0], choice.solvers[0], choice.work, weights[0])
    algorithms = tuple(s.algorithm(t) for s, t in zip(choice.solvers, topologies, strict=True))
    operands = [*Cs, *Bs, V]
    terms = [Term(*one, name) for *one, name in zip(topologies, weights, Cs, Bs, scales, algorithms, strict=True)]
    operand_dtype = V.dtype if takes_half(choice.form, terms, V) else dtype
    others = [x for x in (*weights, *scales) if x is not None]
    as_is = all(x.dtype == dtype for x in others) and all(x.dtype == operand_dtype for x in operands)
    as_is = as_is and len(lead) == 1 and all(x == lead for x in leads.values())
    return _MixPlan(lead, dtype, operand_dtype, choice, algorithms, as_is, empty=0 in (N, P))


def _terms(
    plan: _MixPlan, topologies: list, weights: list, Cs: list, Bs: list, V: Tensor, scales: Any
) -> tuple[list[Term], Tensor]:
    """Terms with all leading dimensions as one, and V likewise; a tensor given twice is converted once."""
    once: dict[int, Tensor] = {}

    def flat(x: Tensor, kept: int) -> Tensor:
        if plan.as_is:
            return x
        if id(x) not in once:
            once[id(x)] = flatten_lead(x.to(plan.operand_dtype if kept == 3 else plan.dtype), plan.lead, kept)
        return once[id(x)]

    def columns(x: Tensor) -> Tensor:
        return with_columns(flat(x, 3)) if plan.empty else flat(x, 3)

    arguments = zip(plan.choice.solvers, plan.algorithms, topologies, weights, Cs, Bs, scales, strict=True)
    terms = [
        Term(t, flat(w, 2), columns(c), columns(b), None if a is None else flat(a, 2), algorithm, s)
        for s, algorithm, t, w, c, b, a in arguments
    ]
    return terms, columns(V)


def _signature(x: Any) -> Any:
    """What the checks of a tensor depend on; other things are never equal, so that they are always checked."""
    return (x.shape, x.dtype, x.device) if isinstance(x, Tensor) else x if x is None else object()


def _pick(solver: Solver | None, topology: Topology, weight: Tensor) -> Solver:
    return exact_solver(topology, weight.device)[0] if solver is None else require(solver, topology)


custom_ops.implement(mask=mask_now, solve=solve_now, mix=mix_now, mix_states=mix_states_now)
