"""``y_t += Σ_{s→t} w x_s``, node after node. With x = y and nodes in topological order it is a substitution.

Arrays: ``w [H, E]``, ``x, y [H, T, K]`` with K a multiple of 16.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chimera_ssm.cpu.compilation import kernel
from chimera_ssm.cpu.simd import WIDTH, fma, load, vload, vstore
from chimera_ssm.topology import Topology

#: Columns that a task works on.
COLUMNS = 128


class IncomingEdges(NamedTuple):
    """Edges by the node they enter; nodes in topological order if there is one.

    Attributes:
        node: ``[T]``.
        begin: edges into ``node[k]`` are ``begin[k]`` to ``begin[k + 1]``, ``[T + 1]``.
        edge: number of each such edge, ``[E]``.
        source: its source, ``[E]``.
    """

    node: np.ndarray
    begin: np.ndarray
    edge: np.ndarray
    source: np.ndarray


def incoming_edges(topology: Topology) -> IncomingEdges:
    """The incoming edges of all nodes."""
    nodes = topology._topological_order if topology.is_acyclic else np.arange(topology.num_nodes)
    return IncomingEdges(nodes.astype(np.int32), *sort_by_target(topology, nodes))


def sort_by_target(topology: Topology, nodes: np.ndarray) -> tuple[np.ndarray, ...]:
    """``begin``, ``edge`` and ``source`` of `IncomingEdges` for nodes in the given order."""
    source, target = topology._edge_index
    step = np.empty_like(nodes)
    step[nodes] = np.arange(nodes.size)
    edge = np.argsort(step[target], kind="stable")
    begin = np.zeros(nodes.size + 1, dtype=np.int64)
    np.cumsum(np.bincount(step[target], minlength=nodes.size), out=begin[1:])
    return tuple(x.astype(np.int32) for x in (begin, edge, source[edge]))


@kernel
def accumulate(first, last, plan, w, x, y):
    """Tasks are heads times blocks of columns."""
    edges, (_, nodes, K) = w.shape[1], y.shape
    blocks = -(-K // COLUMNS)
    for task in range(first, last):
        head, start = task // blocks, task % blocks * COLUMNS
        stop, wo, here = min(K, start + COLUMNS), head * edges, head * nodes * K
        for k in range(nodes):
            own, e0, e1 = here + load(plan.node, k) * K, load(plan.begin, k), load(plan.begin, k + 1)
            for c in range(start, stop, WIDTH):
                total = vload(y, own + c)
                for e in range(e0, e1):
                    total = fma(load(w, wo + load(plan.edge, e)), vload(x, here + load(plan.source, e) * K + c), total)
                vstore(y, own + c, total)
