"""Columns pulled along edges: ``y_t += Σ_{s→t} w x_s``. With y itself for x, in topological order, it is a sweep.

Arrays: ``w [H, E]``, ``x, y [H, T, K]`` with K a multiple of 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chimera_ssm.cpu.simd import WIDTH, at, fma, load, store
from chimera_ssm.ops.jit import kernel
from chimera_ssm.topology import Topology

#: Columns that a task works on.
COLUMNS = 128


@dataclass(frozen=True)
class PullPlan:
    """Edges by the node they enter, nodes in topological order if there is one.

    Attributes:
        node: ``[T]``.
        begin: edges into ``node[k]`` are ``begin[k]`` to ``begin[k + 1]``, ``[T + 1]``.
        edge: number of each such edge, ``[E]``; ``source``: its source.
    """

    node: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    source: np.ndarray


def pull_plan(topology: Topology) -> PullPlan:
    """The plan of a topology, made once."""
    return topology.once("pull plan", lambda: _make(topology))


def _make(topology: Topology) -> PullPlan:
    nodes = topology._topological_order if topology.is_acyclic else np.arange(topology.num_nodes)
    return PullPlan(nodes.astype(np.int32), *entering(topology, nodes))


def entering(topology: Topology, nodes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Edges by the node they enter, nodes in the given order: ``begin``, ``edge`` and ``source`` of a `PullPlan`."""
    source, target = topology._edge_index
    step = np.empty_like(nodes)
    step[nodes] = np.arange(nodes.size)
    edge = np.argsort(step[target], kind="stable")
    begin = np.zeros(nodes.size + 1, dtype=np.int64)
    np.cumsum(np.bincount(step[target], minlength=nodes.size), out=begin[1:])
    return tuple(x.astype(np.int32) for x in (begin, edge, source[edge]))


@kernel
def pull(first, last, node, begin, edge, source, w, x, y):
    """Tasks are heads times blocks of columns."""
    edges, (_, nodes, K) = w.shape[1], y.shape
    blocks = -(-K // COLUMNS)
    for task in range(first, last):
        head, start = task // blocks, task % blocks * COLUMNS
        stop, wo, here = min(K, start + COLUMNS), head * edges, head * nodes * K
        for k in range(nodes):
            own, e0, e1 = here + at(node, k) * K, at(begin, k), at(begin, k + 1)
            for c in range(start, stop, WIDTH):
                total = load(y, own + c)
                for e in range(e0, e1):
                    total = fma(at(w, wo + at(edge, e)), load(x, here + at(source, e) * K + c), total)
                store(y, own + c, total)
