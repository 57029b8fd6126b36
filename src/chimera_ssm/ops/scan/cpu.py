"""Mixes on directed paths by CPU kernels, in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from chimera_ssm.cpu import threads
from chimera_ssm.ops.autograd import (
    arrays_of,
    double_backward_via,
    empty,
    empty_like,
    flatten,
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
from chimera_ssm.ops.scan import torch as torch_backend
from chimera_ssm.ops.scan.kernels import Line
from chimera_ssm.ops.terms import Term, pack_terms, unpack_terms
from chimera_ssm.topology import Topology

#: Nodes of a chunk: its mask costs a quarter of the work on states of 64 × 64.
_CHUNK = 64
#: Channels of a task at most; number of tasks at least, before tasks get more than sixteen channels.
_WIDTH, _TASKS = 128, 8
#: Elements of the states that a bundle of tasks carries from chunk to chunk: 256 kB in float32.
_BUNDLE = 1 << 16
#: Elements of the states before all chunks of a bundle: 128 MB in float32.
_BEFORE = 1 << 25
#: Number of nodes up to which the gradients of several lines are computed together.
_AT_ONCE = 4096


def mix_by_state(terms: list[Term], V: Tensor, exclude_diagonal: bool = False) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``; if ``exclude_diagonal``, all terms but the first without the diagonal of L."""
    topologies, tensors = unpack_terms(terms, V)
    return _ScanMix.apply(V, topologies, exclude_diagonal, *tensors)


def _plain(V: Tensor, topologies: list[Topology], exclude_diagonal: bool, *tensors: Tensor) -> Tensor:
    return torch_backend.mix_by_state(pack_terms("scan", topologies, tensors), V, exclude_diagonal)


class _ScanMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, V: Tensor, topologies: list[Topology], exclude_diagonal: bool, *tensors: Tensor) -> Tensor:
        save_arguments(ctx, (V, topologies, exclude_diagonal, *tensors))
        ctx.exclude = [exclude_diagonal and d > 0 for d in range(len(topologies))]
        if not values_wanted():
            return torch.empty_like(V)
        v = _channels(V.detach())
        y, tasks, calls = empty_like(v), _tasks(v), []
        for topology, exclude, w, scale, C, B in zip(topologies, ctx.exclude, *split_args(tensors), strict=True):
            b, c = (padded(x.detach(), 16).flatten(0, 1) for x in (B, C))
            arrays = *arrays_of(w.flatten(0, 1), scale.flatten(0, 1), b, c), _memory(v), _memory(y)
            calls.append((kernels.forward, (not calls, _line(topology, exclude, v, c), arrays)))
        threads.run_each(calls, tasks, len(topologies) * _work(v, tensors[-1]))
        return not_a_view(y[..., : V.shape[3]])

    @staticmethod
    @double_backward_via(_plain)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (V, _, _, *tensors), topologies = ctx.saved_tensors, ctx.others[1]
        v, g = _channels(V), _channels(grads[0])
        dv, ranges = empty_like(v), min(threads.threads_for(_work(v, tensors[-1])), _tasks(v))
        several = list(zip(topologies, ctx.exclude, *split_args(tuple(tensors)), strict=True))
        # Long lines one after the other, because each needs large buffers for sums.
        at_once = len(several) if v.shape[2] <= _AT_ONCE else 1
        gradients: list[tuple[Tensor, ...]] = []
        for first in range(0, len(several), at_once):
            gradients += _adjoints(several[first : first + at_once], v, g, dv, first == 0, ranges)
        dV, of_terms = dv[..., : V.shape[3]], zip(*gradients, strict=True)
        return dV, None, None, *(gradient for kind in of_terms for gradient in kind)


def _adjoints(
    several: list[Any], v: Tensor, g: Tensor, dv: Tensor, fresh: bool, ranges: int
) -> list[tuple[Tensor, ...]]:
    """Gradients of weight, scale, C and B of each topology; those of V are added to ``dv``, or set if ``fresh``."""
    inputs, calls, sums = [], [], []
    for topology, exclude, w, scale, C, B in several:
        b, c = (padded(x, 16).flatten(0, 1) for x in (B, C))
        inputs.append((_line(topology, exclude, v, c), w.flatten(0, 1), scale.flatten(0, 1), b, c))
    scratch = empty(ranges, max(_states_before(line, v, c, ranges) for line, *_, c in inputs), like=v)
    for line, w, scale, b, c in inputs:
        dw, dscale = (empty(line.parts, *x.shape, like=v) for x in (w, scale))
        dB, dC = (zeros(ranges, *b.shape, like=v) for _ in range(2))
        arrays = *arrays_of(w, scale, b, c), _memory(v), _memory(g), *arrays_of(dw, dscale, dB, dC), _memory(dv)
        calls.append((kernels.backward, (fresh and not calls, ranges, line, arrays, *arrays_of(scratch))))
        sums.append((dw, dscale, dC, dB))
    threads.run_each(calls, ranges)
    return [
        (
            summed(dw).view(w.shape),
            summed(dscale).view(scale.shape),
            *(summed(x)[..., : C.shape[-1]].view(C.shape) for x in (dC, dB)),
        )
        for (_, _, w, scale, C, _), (dw, dscale, dC, dB) in zip(several, sums, strict=True)
    ]


def _channels(x: Tensor) -> Tensor:
    """``[Z, H, T, P]`` with zeros up to a P that tasks can divide; as it is in memory if there are none to add."""
    multiple = 16 if x.shape[3] <= _WIDTH else _WIDTH
    return x if x.shape[3] % multiple == 0 and x.stride(3) == 1 else padded(x, multiple)


def _memory(x: Tensor) -> tuple[Any, tuple[int, ...]]:
    memory, strides = flatten(x.detach())
    return memory.numpy(), strides


def _width(v: Tensor) -> int:
    """Channels of a task; depends on shapes alone, not on the number of threads."""
    Z, H, _, P = v.shape
    width = min(P, _WIDTH)
    while width % 32 == 0 and Z * H * P // width < _TASKS:
        width //= 2
    return width


def _tasks(v: Tensor) -> int:
    return v.shape[0] * v.shape[1] * v.shape[3] // _width(v)


def _line(topology: Topology, exclude: bool, v: Tensor, C: Tensor) -> Line:
    """How a line is divided: chunks of equal size, and bundles of whole groups where these are small enough."""
    (node, edge), width, nodes = topology.cached(_path), _width(v), topology.num_nodes
    chunk = -(-nodes // (16 * -(-nodes // _CHUNK))) * 16
    states = C.shape[2] * width
    bundle = max(1, min(_BUNDLE // states, _BEFORE // (states * -(-nodes // chunk))))
    group = _tasks(v) // C.shape[0]
    bundle = max(bundle // group * group, min(bundle, group))
    return Line(node, edge, v.shape[1], v.shape[3] // width, width, chunk, bundle, exclude)


def _states_before(line: Line, v: Tensor, C: Tensor, ranges: int) -> int:
    """Numbers of the states before all chunks of a bundle, of which each range has at most one at a time."""
    chunks, tasks = -(-v.shape[2] // line.chunk), min(line.bundle, -(-_tasks(v) // ranges))
    return tasks * chunks * C.shape[2] * line.width


def _path(topology: Topology) -> tuple[Any, Any]:
    """Nodes in line order, and the edge that enters each from the one before, −1 if there is none."""
    plan, nodes, edges = topology.directed_paths, topology.num_nodes, topology.num_edges
    assert plan is not None
    ahead = np.asarray(plan.ahead)
    return np.arange(nodes) if plan.nodes is None else np.asarray(plan.nodes), np.where(ahead < edges, ahead, -1)


def _work(v: Tensor, C: Tensor) -> int:
    return 2 * v.numel() * C.shape[-1]


OPERATIONS = {"mix_by_state": Operation(mix_by_state)}
