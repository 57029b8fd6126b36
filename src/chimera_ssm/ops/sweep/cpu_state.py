"""Mixes through states on acyclic topologies, by CPU kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.ops import mixing
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    empty,
    not_a_view,
    padded,
    save_arguments,
    split_args,
    summed,
    values_wanted,
    zeros,
)
from chimera_ssm.ops.sweep import kernels_state as kernels
from chimera_ssm.ops.sweep.plan import sweep_plan
from chimera_ssm.ops.sweep.state_plan import back_slots, other_edges, places, source_slots
from chimera_ssm.ops.terms import Term, pack_terms, unpack_terms
from chimera_ssm.topology import Topology

#: Nodes of a segment in the forward pass at least.
_SEGMENT = 512
#: Number of nodes up to which the backward pass uses one segment and computes states once.
_ONE_SEGMENT = 4096
#: Elements of the states that a bundle of tasks keeps between segments: 1 MB in float32.
_BUNDLE = 1 << 18
#: Elements of the states at segment boundaries that a backward pass keeps: 256 MB in float32.
_CROSSING = 1 << 26


def mix_by_state(terms: list[Term], V: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V`` on acyclic topologies."""
    topologies, tensors = unpack_terms(terms, V)
    return _StateMix.apply(V, topologies, *tensors)


def _plain(V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
    return mixing.mix_by_state(pack_terms("sweep", topologies, tensors), V)


class _StateMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[Topology], *tensors: Tensor) -> Tensor:
        save_arguments(ctx, (V, topologies, *tensors))
        if not values_wanted():
            return torch.empty_like(V)
        v = padded(V.detach(), kernels.CHANNELS).flatten(0, 1)
        y, tasks = empty(*v.shape, like=v), v.shape[0] * v.shape[2] // kernels.CHANNELS
        calls = []
        for d, (topology, w, scale, C, B) in enumerate(zip(topologies, *split_args(tensors), strict=True)):
            plan, others = topology.cached(sweep_plan, True), topology.cached(other_edges)
            b, c = (padded(x.detach(), kernels.STATES).flatten(0, 1) for x in (B, C))
            segment, bundle = _division(topology, b.shape[2] // kernels.STATES)
            steps = plan.node, plan.carried, *others[1:4], plan.slot, plan.slots, segment, bundle
            arrays = arrays_of(w.flatten(0, 1), scale.flatten(0, 1), b, c, v, y)
            calls.append((kernels.KERNELS[others.kind][0], (d == 0, steps, tuple(arrays))))
        work = len(topologies) * _state_work(topologies[0], v, tensors[-1])
        threads.run_each(calls, tasks, work)
        return not_a_view(y.view(*V.shape[:3], -1)[..., : V.shape[3]])

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (V, _, *tensors), topologies = ctx.saved_tensors, ctx.others[1]
        v, g = (padded(x, kernels.CHANNELS).flatten(0, 1) for x in (V, grads[0]))
        dv, parts = empty(*v.shape, like=v), v.shape[2] // kernels.CHANNELS
        ranges = min(threads.threads_for(_state_work(topologies[0], v, tensors[-1])), v.shape[0] * parts)
        several = list(zip(topologies, *split_args(tuple(tensors)), strict=True))
        # Large topologies one after the other, because each needs large buffers for sums.
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
    parts, calls, sums = v.shape[2] // kernels.CHANNELS, [], []
    for topology, w, scale, C, B in several:
        plan, others = topology.cached(sweep_plan, True), topology.cached(other_edges)
        b, c = (padded(x, kernels.STATES).flatten(0, 1) for x in (B, C))
        segment, bundle = _division(topology, b.shape[2] // kernels.STATES, backward=True)
        dw, dscale = (empty(parts, *x.flatten(0, 1).shape, like=v) for x in (w, scale))
        dB, dC = (zeros(ranges, *b.shape, like=v) for _ in range(2))
        steps = kernels.BackSteps(
            plan.node, plan.carried, *others[1:4], topology.cached(source_slots), topology.cached(places, segment),
            others.latest, plan.slot, topology.cached(back_slots), plan.slots, segment, bundle,
        )  # fmt: skip
        arrays = tuple(arrays_of(w.flatten(0, 1), scale.flatten(0, 1), b, c, v, g, dw, dscale, dB, dC, dv))
        calls.append((kernels.KERNELS[others.kind][1], (fresh and not calls, ranges, steps, arrays)))
        sums.append((dw, dscale, dC, dB))
    threads.run_each(calls, ranges)
    return [
        (
            summed(dw).view(w.shape),
            summed(dscale).view(scale.shape),
            *(summed(x)[..., : C.shape[-1]].view(C.shape) for x in (dC, dB)),
        )
        for (_, w, scale, C, _), (dw, dscale, dC, dB) in zip(several, sums, strict=True)
    ]


def _state_work(topology: Topology, V: Tensor, C: Tensor) -> int:
    return (topology.num_nodes + topology.num_edges) * V.shape[0] * V.shape[-1] * C.shape[-1]


def _division(topology: Topology, blocks: int, backward: bool = False) -> tuple[int, int]:
    """Nodes of a segment, and tasks that go through it together; neither depends on the number of threads.

    With several segments the backward pass recomputes all states once more, which pays off beyond 4,096 nodes.

    Args:
        topology: acyclic.
        blocks: number of state blocks of each task.
        backward: whether for the backward pass.
    """
    slots, nodes = topology.cached(sweep_plan, True).slots, topology.num_nodes
    states = blocks * (slots + kernels.SPARE) * kernels.BLOCK
    segment = max(_ONE_SEGMENT, 16 * slots) if backward else max(_SEGMENT, 8 * slots)
    if nodes <= segment:
        return nodes, _BUNDLE
    if not backward:
        return segment, max(1, _BUNDLE // states)
    while -(-nodes // segment) * states > _CROSSING:
        segment *= 2
    crossing = -(-nodes // segment) * states
    return min(segment, nodes), max(1, min(_BUNDLE // states, _CROSSING // crossing))
