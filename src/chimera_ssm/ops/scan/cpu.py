"""Mixes on directed paths by CPU kernels, in chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    empty,
    empty_like,
    not_a_view,
    padded,
    save_arguments,
    split_args,
    summed,
    values_wanted,
    zeros,
)
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.scan import kernels
from chimera_ssm.ops.scan.cpu_line import divide, memory_of, pad_channels, states_before, tasks_of, work_of
from chimera_ssm.ops.scan.torch import mix_tensors
from chimera_ssm.ops.terms import Term, unpack_terms
from chimera_ssm.topology import Topology

#: Number of nodes up to which the gradients of several lines are computed together.
_AT_ONCE = 4096


def mix_by_state(terms: list[Term], V: Tensor, exclude_diagonal: bool = False) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``; if ``exclude_diagonal``, all terms but the first without the diagonal of L."""
    topologies, tensors = unpack_terms(terms, V)
    y, _ = _ScanMix.apply(V, None, topologies, exclude_diagonal, *tensors)
    return y


def mix_with_states(term: Term, V: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mix of directed lines, one for each part, with states ``[Z, H, parts, N, P]`` that enter and leave them."""
    if initial is None:
        initial = V.new_zeros(*V.shape[:2], term.topology.num_parts, term.C.shape[3], V.shape[3])
    topologies, tensors = unpack_terms([term], V)
    return _ScanMix.apply(V, initial, topologies, False, *tensors)


class _ScanMix(torch.autograd.Function):
    """The mix, and the states that leave if states enter."""

    @staticmethod
    def forward(
        ctx: Any,
        V: Tensor,
        initial: Tensor | None,
        topologies: list[Topology],
        exclude_diagonal: bool,
        *tensors: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        save_arguments(ctx, (V, initial, topologies, exclude_diagonal, *tensors))
        ctx.exclude = [exclude_diagonal and d > 0 for d in range(len(topologies))]
        if not values_wanted():
            return torch.empty_like(V), None if initial is None else torch.empty_like(initial)
        v = pad_channels(V.detach())
        entering = _padded_states(V, initial)
        leaving = empty(*entering.shape, like=v)
        y, tasks, calls, ends = empty_like(v), tasks_of(v), [], tuple(arrays_of(entering, leaving))
        for topology, exclude, w, scale, C, B in zip(topologies, ctx.exclude, *split_args(tensors), strict=True):
            b, c = (padded(x.detach(), 16).flatten(0, 1) for x in (B, C))
            arrays = *arrays_of(w.flatten(0, 1), scale.flatten(0, 1), b, c), memory_of(v), memory_of(y)
            line = divide(topology, exclude, initial is not None, v, c)
            calls.append((kernels.forward, (not calls, line, arrays, ends)))
        threads.run_each(calls, tasks, len(topologies) * work_of(v, tensors[-1]))
        return not_a_view(y[..., : V.shape[3]]), None if initial is None else _cut_states(leaving, initial)

    @staticmethod
    @double_backward_via(mix_tensors)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (V, initial, _, _, *tensors), topologies = ctx.saved_tensors, ctx.others[2]
        v, g = pad_channels(V), pad_channels(grads[0])
        entering, dleaving = _padded_states(V, initial), _padded_states(V, None if initial is None else grads[1])
        dentering = empty(*entering.shape, like=v)
        ends = tuple(arrays_of(entering, dleaving, dentering))
        dv, ranges = empty_like(v), min(threads.threads_for(work_of(v, tensors[-1])), tasks_of(v))
        several = list(zip(topologies, ctx.exclude, *split_args(tuple(tensors)), strict=True))
        # Long lines one after the other, because each needs large buffers for sums.
        at_once = len(several) if v.shape[2] <= _AT_ONCE else 1
        gradients: list[tuple[Tensor, ...]] = []
        for first in range(0, len(several), at_once):
            some = [(*one, initial is not None) for one in several[first : first + at_once]]
            gradients += _adjoints(some, v, g, dv, ends, first == 0, ranges)
        dV, of_terms = dv[..., : V.shape[3]], zip(*gradients, strict=True)
        dinitial = None if initial is None else _cut_states(dentering, initial)
        return dV, dinitial, None, None, *(gradient for kind in of_terms for gradient in kind)


def _adjoints(
    several: list[Any], v: Tensor, g: Tensor, dv: Tensor, ends: tuple[Any, ...], fresh: bool, ranges: int
) -> list[tuple[Tensor, ...]]:
    """Gradients of weight, scale, C and B of each topology; those of V are added to ``dv``, or set if ``fresh``."""
    inputs, calls, sums = [], [], []
    for topology, exclude, w, scale, C, B, with_states in several:
        b, c = (padded(x, 16).flatten(0, 1) for x in (B, C))
        line = divide(topology, exclude, with_states, v, c)
        inputs.append((line, w.flatten(0, 1), scale.flatten(0, 1), b, c))
    scratch = empty(ranges, max(states_before(line, v, c, ranges) for line, *_, c in inputs), like=v)
    for line, w, scale, b, c in inputs:
        dw, dscale = (empty(line.parts, *x.shape, like=v) for x in (w, scale))
        dB, dC = (zeros(ranges, *b.shape, like=v) for _ in range(2))
        arrays = *arrays_of(w, scale, b, c), memory_of(v), memory_of(g), *arrays_of(dw, dscale, dB, dC), memory_of(dv)
        calls.append((kernels.backward, (fresh and not calls, ranges, line, arrays, ends, *arrays_of(scratch))))
        sums.append((dw, dscale, dC, dB))
    threads.run_each(calls, ranges)
    return [
        (
            summed(dw).view(w.shape),
            summed(dscale).view(scale.shape),
            *(summed(x)[..., : C.shape[-1]].view(C.shape) for x in (dC, dB)),
        )
        for (_, _, w, scale, C, _, _), (dw, dscale, dC, dB) in zip(several, sums, strict=True)
    ]


def _padded_states(V: Tensor, states: Tensor | None) -> Tensor:
    """States ``[Z, H, parts, N, P]`` as kernels read them, ``[Z·H, parts, N, P]``; none if there are none."""
    if states is None:
        return V.new_empty(0, 0, 0, 0)
    states = states.detach()
    return pad_channels(pad(states, (0, 0, 0, -states.shape[3] % 16))).flatten(0, 1).contiguous()


def _cut_states(padded: Tensor, states: Tensor) -> Tensor:
    """The reverse, for the shape of ``states``."""
    return not_a_view(padded.view(*states.shape[:2], *padded.shape[1:])[..., : states.shape[3], : states.shape[4]])


OPERATIONS = {"mix_by_state": Operation(mix_by_state), "mix_with_states": Operation(mix_with_states)}
