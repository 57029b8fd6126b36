"""Mixes on directed lines that continue from a state and return the state after the last node.

On each line, with weights a, ``h_t = a_t h_{t−1} + β_t B_t v_tᵀ`` and ``y_t = C_tᵀ h_t``. At the first node the state
that enters, ``initial_state``, takes the place of ``a_t h_{t−1}``: the edge into it belongs to no topology, so the
caller multiplies the state before it with its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from chimera_ssm.errors import TopologyError
from chimera_ssm.ops import dispatch
from chimera_ssm.ops.autograd import values_wanted
from chimera_ssm.ops.broadcasting import broadcast_lead, compute_dtype, flatten_lead, with_columns, without_autocast
from chimera_ssm.ops.checking import check_all_finite, check_finite
from chimera_ssm.ops.neumann.solver import Neumann
from chimera_ssm.ops.terms import Term
from chimera_ssm.ops.unions import needs_parts, split_edges, split_nodes
from chimera_ssm.topology import Batch, Line, Topology

#: The number of last dimensions of each argument that are not leading dimensions.
_KEPT = {"weight": 2, "C": 3, "B": 3, "V": 3, "scale": 2, "initial_state": 4}


def mix_states_now(
    topology: Topology,
    weight: Tensor,
    C: Tensor,
    B: Tensor,
    V: Tensor,
    scale: Tensor | None,
    initial_state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The mix of checked arguments on directed lines, and the state after the last node of each line."""
    arguments = {"weight": weight, "C": C, "B": B, "V": V, "scale": scale, "initial_state": initial_state}
    check_all_finite({name: [x] for name, x in arguments.items()}, "look for the operation that made it")
    dtype = compute_dtype(*(x for x in arguments.values() if x is not None))
    apart = isinstance(topology, Batch)
    if initial_state is not None:  # [..., H, num_parts, N, P], so that parts are not among the leading dimensions
        arguments["initial_state"] = initial_state.transpose(-4, -3) if apart else initial_state.unsqueeze(-3)
    lead = broadcast_lead({name: x.shape[: -_KEPT[name]] for name, x in arguments.items() if x is not None})
    with without_autocast(V):
        flat = [None if x is None else flatten_lead(x.to(dtype), lead, _KEPT[name]) for name, x in arguments.items()]
        y, leaving = _mix_flat(topology, *flat)
    check_finite("the mix", y, "bound the weights: products of weights along the line overflow")
    leaving = leaving.unflatten(0, lead) if lead else leaving.squeeze(0)
    leaving = leaving.transpose(-4, -3) if apart else leaving.squeeze(-3)
    return y.reshape(*lead, *y.shape[1:]).to(V.dtype), leaving


def _mix_flat(
    topology: Topology, weight: Any, C: Any, B: Any, V: Any, scale: Any, states: Any
) -> tuple[Tensor, Tensor]:
    """The same with one leading dimension, and states ``[Z, H, parts, N, P]``."""
    N, P = C.shape[-1], V.shape[-1]
    term = Term(topology, weight, with_columns(C), with_columns(B), scale, "scan")
    if states is not None and 0 in (N, P):
        states = states.new_zeros(*states.shape[:3], max(N, 1), max(P, 1))
    y, leaving = dispatch.run("mix_with_states", "scan", term, with_columns(V), states)
    if needs_parts([topology], *([y, leaving] if values_wanted() else [weight, C, B, V, scale, states])):
        nodes = [split_nodes(topology, x, dim) for x, dim in ((C, 2), (B, 2), (V, 2))]
        scales = [None] * topology.num_parts if scale is None else split_nodes(topology, scale, 2)
        entering = [None] * topology.num_parts if states is None else states.split(1, 2)
        pieces = zip(topology.parts, split_edges(topology, weight), *nodes, scales, entering, strict=True)
        ys, leavings = zip(*(_mix_flat(*piece) for piece in pieces), strict=True)
        return torch.cat(ys, 2), torch.cat(leavings, 2)
    return y[..., :P], leaving[..., :N, :P]


def check_states(topologies: Sequence[Topology], C: Tensor, V: Tensor, state: Any, solver: Any) -> None:
    """Refuse what has no state between nodes, and an initial state of another size."""
    if len(topologies) > 1:
        raise TopologyError(
            f"a state enters and leaves one topology, found {len(topologies)}: leave initial_state and return_state "
            "out, or mix each topology by a call of its own"
        )
    topology = topologies[0]
    if not topology.cached(_are_lines):
        raise TopologyError(
            f"initial_state and return_state need a directed Line or a batch of them, found {topology!r}: only there a "
            "single state passes from each node to the next"
        )
    if isinstance(solver, Neumann):
        raise ValueError(
            f"states are exact, and {solver} truncates the series: leave the solver out, or initial_state and "
            "return_state"
        )
    if state is None:
        return
    if not isinstance(state, Tensor) or not state.is_floating_point():
        found = state.dtype if isinstance(state, Tensor) else type(state).__name__
        raise ValueError(f"initial_state must be a floating point tensor, found {found}")
    expected = [V.shape[-3], C.shape[-1], V.shape[-1]]
    if isinstance(topology, Batch):
        expected.insert(0, topology.num_parts)
    if list(state.shape[-len(expected) :]) != expected:
        name = "[..., num_parts, H, N, P]" if isinstance(topology, Batch) else "[..., H, N, P]"
        raise ValueError(
            f"initial_state must have shape {name} = [..., {', '.join(map(str, expected))}] on {topology!r}, found "
            f"{list(state.shape)}"
        )
    if state.device != V.device:
        raise ValueError(f"initial_state and V must be on one device, found {state.device} and {V.device}")


def _are_lines(topology: Topology) -> bool:
    return all(isinstance(part, Line) for part in topology.parts)
