"""How lines are divided into tasks and chunks, and tensors as the kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from chimera_ssm.ops.autograd import flatten, padded
from chimera_ssm.ops.scan.kernels import Line
from chimera_ssm.topology import Topology

#: Nodes of a chunk: its mask costs a quarter of the work on states of 64 × 64.
_CHUNK = 64
#: Channels of a task at most; number of tasks at least, before tasks get more than sixteen channels.
_WIDTH, _TASKS = 128, 8
#: Elements of the states that a bundle of tasks carries from chunk to chunk: 256 kB in float32.
_BUNDLE = 1 << 16
#: Elements of the states before all chunks of a bundle: 128 MB in float32.
_BEFORE = 1 << 25


def divide(topology: Topology, exclude_diagonal: bool, with_states: bool, v: Tensor, C: Tensor) -> Line:
    """How a line is divided: chunks of equal size, and bundles of whole groups where these are small enough.

    If states enter and leave, each part of the topology has chunks of its own.
    """
    node, edge = topology.cached(_path)
    nodes = int(topology.part_sizes.max()) if with_states else topology.num_nodes
    chunk = -(-nodes // (16 * -(-nodes // _CHUNK))) * 16
    bounds, path = topology.cached(_part_chunks if with_states else _chunks, chunk)
    width = _width(v)
    states = C.shape[2] * width
    bundle = max(1, min(_BUNDLE // states, _BEFORE // (states * path.size)))
    group = tasks_of(v) // C.shape[0]
    bundle = max(bundle // group * group, min(bundle, group))
    parts = v.shape[3] // width
    return Line(node, edge, v.shape[1], parts, width, chunk, bundle, bounds, path, with_states, exclude_diagonal)


def tasks_of(v: Tensor) -> int:
    """Number of tasks."""
    return v.shape[0] * v.shape[1] * v.shape[3] // _width(v)


def work_of(v: Tensor, C: Tensor) -> int:
    """Approximate number of multiplications."""
    return 2 * v.numel() * C.shape[-1]


def states_before(line: Line, v: Tensor, C: Tensor, ranges: int) -> int:
    """Numbers of the states before all chunks of a bundle, of which each range has at most one at a time."""
    tasks = min(line.bundle, -(-tasks_of(v) // ranges))
    return tasks * line.path.size * C.shape[2] * line.width


def pad_channels(x: Tensor) -> Tensor:
    """``[..., P]`` with zeros up to a P that tasks can divide; as it is in memory if there are none to add."""
    multiple = 16 if x.shape[-1] <= _WIDTH else _WIDTH
    return x if x.shape[-1] % multiple == 0 and x.stride(-1) == 1 else padded(x, multiple)


def memory_of(x: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The memory of a tensor, and its strides."""
    memory, strides = flatten(x.detach())
    return memory.numpy(), strides


def _width(v: Tensor) -> int:
    """Channels of a task; depends on shapes alone, not on the number of threads."""
    Z, H, _, P = v.shape
    width = min(P, _WIDTH)
    while width % 32 == 0 and Z * H * P // width < _TASKS:
        width //= 2
    return width


def _path(topology: Topology) -> tuple[Any, Any]:
    """Nodes in line order, and the edge that enters each from the one before, −1 if there is none."""
    plan, nodes, edges = topology.directed_paths, topology.num_nodes, topology.num_edges
    assert plan is not None
    ahead = np.asarray(plan.ahead)
    return np.arange(nodes) if plan.nodes is None else np.asarray(plan.nodes), np.where(ahead < edges, ahead, -1)


def _chunks(topology: Topology, chunk: int) -> tuple[Any, Any]:
    """First step of each chunk, and the number of steps; and zeros."""
    starts = np.arange(0, topology.num_nodes, chunk)
    return np.append(starts, topology.num_nodes), np.zeros_like(starts)


def _part_chunks(topology: Topology, chunk: int) -> tuple[Any, Any]:
    """First step of each chunk, and the number of steps; and the part of each chunk."""
    sizes = topology.part_sizes
    counts = -(-sizes // chunk)
    part = np.repeat(np.arange(sizes.size), counts)
    within = np.arange(part.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append((np.cumsum(sizes) - sizes)[part] + within * chunk, topology.num_nodes), part
