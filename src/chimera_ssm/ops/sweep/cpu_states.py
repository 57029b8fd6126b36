"""Mixes by states on acyclic topologies, as autograd sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.ops.autograd import (
    arrays_of,
    empty,
    keep,
    not_a_view,
    padded,
    plan_of,
    quarters,
    summed,
    terms_of,
    twice,
    values_wanted,
    zeros,
)
from chimera_ssm.ops.scan.cpu import mix_by_chunks
from chimera_ssm.topology import Topology

if TYPE_CHECKING:
    from chimera_ssm.ops.sweep.plan import SweepPlan

#: Nodes of a segment in the forward pass at least.
_SEGMENT = 512
#: Up to so many nodes the backward pass goes through others in one segment, and computes states once.
_ONE_SEGMENT = 4096
#: Numbers of all states that tasks of a bundle keep between segments, a megabyte in float32.
_BUNDLE = 1 << 18
#: Numbers that a backward pass keeps of what crosses segments, a quarter of a gigabyte in float32.
_CROSSING = 1 << 26


def mix_by_states(topologies: list[Topology], weights: list[Tensor], Cs: list[Tensor], Bs: list[Tensor], V: Tensor,
                  scales: list[Tensor]) -> Tensor:  # fmt: skip
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on acyclic topologies, shapes as in `chimera_ssm.ops.mixing`."""
    if all(topology.directed_paths is not None for topology in topologies):
        return mix_by_chunks(topologies, weights, Cs, Bs, V, scales)
    return _StateMix.apply(V, topologies, *(w.flatten(0, 1) for w in weights), *scales, *Cs, *Bs)


def _plain(V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
    from chimera_ssm.ops import mixing as forms

    return forms.mix_by_states(terms_of(topologies, V, tensors), V)


class _StateMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.sweep import kernels_states as states

        keep(ctx, (V, topologies, *tensors))
        if not values_wanted():
            return torch.empty_like(V)
        v = padded(V.detach(), states.CHANNELS).flatten(0, 1)
        y, tasks = empty(*v.shape, like=v), v.shape[0] * v.shape[2] // states.CHANNELS
        calls = []
        for d, (topology, w, scale, C, B) in enumerate(zip(topologies, *quarters(tensors), strict=True)):
            plan, (others, begin, edge, place, _) = plan_of(topology, carry=True), _other_edges(topology)
            b, c = (padded(x.detach(), states.STATES).flatten(0, 1) for x in (B, C))
            segment, bundle = _division(topology, b.shape[2] // states.STATES)
            steps = plan.node, plan.carried, begin, edge, place, plan.slot, plan.slots, segment, bundle
            arrays = arrays_of(w, scale.flatten(0, 1), b, c, v, y)
            calls.append((states.KERNELS[others][0], (d == 0, steps, tuple(arrays))))
        work = len(topologies) * _state_work(topologies[0], v, tensors[-1])
        pool.run_each(calls, tasks, work)
        return not_a_view(y.view(*V.shape[:3], -1)[..., : V.shape[3]])

    @staticmethod
    @twice(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        from chimera_ssm.cpu import threads as pool
        from chimera_ssm.ops.sweep import kernels_states as states

        (V, _, *tensors), topologies = ctx.saved_tensors, ctx.others[1]
        v, g = (padded(x, states.CHANNELS).flatten(0, 1) for x in (V, grads[0]))
        dv, parts = empty(*v.shape, like=v), v.shape[2] // states.CHANNELS
        ranges = min(pool.threads_for(_state_work(topologies[0], v, tensors[-1])), v.shape[0] * parts)
        several = list(zip(topologies, *quarters(tuple(tensors)), strict=True))
        # Small topologies in one go; of large ones, each has sums that had better not exist all at once.
        at_once = len(several) if V.shape[2] <= _ONE_SEGMENT else 1
        gradients: list[tuple[Tensor, ...]] = []
        for first in range(0, len(several), at_once):
            gradients += _adjoints(several[first : first + at_once], v, g, dv, first == 0, ranges)
        dV = dv.view(*V.shape[:3], -1)[..., : V.shape[3]]
        return dV, None, *(gradient for kind in zip(*gradients, strict=True) for gradient in kind)


def _adjoints(
    several: list[Any], v: Tensor, g: Tensor, dv: Tensor, fresh: bool, ranges: int
) -> list[tuple[Tensor, ...]]:
    """Gradients of weight, scale, C and B of each topology; those of V are added to ``dv``, or set if ``fresh``."""
    from chimera_ssm.cpu import threads as pool
    from chimera_ssm.ops.sweep import kernels_states as states

    parts, calls, sums = v.shape[2] // states.CHANNELS, [], []
    for topology, w, scale, C, B in several:
        plan, (others, begin, edge, place, latest) = plan_of(topology, carry=True), _other_edges(topology)
        b, c = (padded(x, states.STATES).flatten(0, 1) for x in (B, C))
        segment, bundle = _division(topology, b.shape[2] // states.STATES, backward=True)
        dw, dscale = (empty(parts, *x.shape, like=v) for x in (w, scale.flatten(0, 1)))
        dB, dC = (zeros(ranges, *b.shape, like=v) for _ in range(2))
        steps = states.BackSteps(
            plan.node, plan.carried, begin, edge, place, _source_slots(topology), _places(topology, segment),
            latest, plan.slot, _back_slots(topology), plan.slots, segment, bundle,
        )  # fmt: skip
        arrays = tuple(arrays_of(w, scale.flatten(0, 1), b, c, v, g, dw, dscale, dB, dC, dv))
        calls.append((states.KERNELS[others][1], (fresh and not calls, ranges, steps, arrays)))
        sums.append((dw, dscale, dC, dB))
    pool.run_each(calls, ranges)
    return [
        (
            summed(dw),
            summed(dscale).view(scale.shape),
            *(summed(x)[..., : C.shape[-1]].view(C.shape) for x in (dC, dB)),
        )
        for (_, _, scale, C, _), (dw, dscale, dC, dB) in zip(several, sums, strict=True)
    ]


def _state_work(topology: Topology, V: Tensor, C: Tensor) -> int:
    return (topology.num_nodes + topology.num_edges) * V.shape[0] * V.shape[-1] * C.shape[-1]


def _division(topology: Topology, blocks: int, backward: bool = False) -> tuple[int, int]:
    """Nodes of a segment, and tasks that go through it together; neither depends on the number of threads.

    The backward pass has to compute all states once more if there are several segments, which is worth it beyond 4,096
    nodes.

    Args:
        topology: acyclic.
        blocks: of states, for each task.
        backward: for which pass.
    """
    from chimera_ssm.ops.sweep.kernels_states import BLOCK, SPARE

    slots, nodes = plan_of(topology, carry=True).slots, topology.num_nodes
    states = blocks * (slots + SPARE) * BLOCK
    segment = max(_ONE_SEGMENT, 16 * slots) if backward else max(_SEGMENT, 8 * slots)
    if nodes <= segment:
        return nodes, _BUNDLE
    if not backward:
        return segment, max(1, _BUNDLE // states)
    while -(-nodes // segment) * states > _CROSSING:
        segment *= 2
    crossing = -(-nodes // segment) * states
    return min(segment, nodes), max(1, min(_BUNDLE // states, _CROSSING // crossing))


def _other_edges(topology: Topology) -> tuple[int, Any, Any, Any, Any]:
    """Edges that do not come from the step before, as `states.with_others` wants them.

    How many a step may have (1, or 2 for any number), begin, edge, place among the slots, and whether it is the last
    to read there.
    """
    return topology.once("other edges", lambda: _arrange_others(plan_of(topology, carry=True)))


def _arrange_others(plan: SweepPlan) -> tuple[int, Any, Any, Any, Any]:
    count = np.diff(plan.begin)
    if count.max() > 1 or not plan.last.all():
        return 2, plan.begin, plan.edge, plan.source_slot, plan.last
    edge, place = np.full(plan.node.size, -1), np.full(plan.node.size, plan.slots + 2)
    latest = np.zeros(plan.node.size, dtype=np.int64)
    edge[count > 0], place[count > 0], latest[count > 0] = plan.edge, plan.source_slot, plan.last
    return 1, np.arange(plan.node.size + 1), edge, place, latest


def _source_slots(topology: Topology) -> Any:
    """Where the adjoint of each such edge's source is collected: its slot, or one that nobody reads."""
    _, _, edge, place, _ = _other_edges(topology)
    return topology.once("source slots", lambda: np.where(edge >= 0, place, plan_of(topology, carry=True).slots))


def _back_slots(topology: Topology) -> Any:
    """Where each step finds what was collected for it: its slot, or a row of zeros."""
    plan = plan_of(topology, carry=True)
    return topology.once("back slots", lambda: np.where(plan.slot < plan.slots, plan.slot, plan.slots + 2))


def _places(topology: Topology, segment: int) -> Any:
    """Row of each such edge's source while a segment is worked on, see the backward kernel."""

    def make() -> Any:
        plan, (_, begin, edge, place, _) = plan_of(topology, carry=True), _other_edges(topology)
        start = np.repeat(np.arange(plan.node.size) // segment * segment, np.diff(begin))
        step = np.full(edge.size, -1)
        step[edge >= 0] = plan.source_step
        return np.where(step < start, place, plan.slots + 4 + step - start)

    return topology.once(("places", segment), make)
