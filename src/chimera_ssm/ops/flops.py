"""FLOPs of mixes, for ``torch.utils.flop_counter``: multiplications as the solvers count them, and as many additions.

Calls are counted within `as_operators`: ``FlopCounterMode(custom_mapping=FLOP_FORMULAS)`` counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from chimera_ssm.ops.custom_ops import solver_of
from chimera_ssm.ops.select import select_solver
from chimera_ssm.topology import Topology
from chimera_ssm.topology.registry import topology_of


def multiplications(
    topologies: Sequence[Topology], state_size: int, head_size: int, groups_per_head: float, solver: Any = None
) -> float:
    """Of a mix, per head: ``Σ S² (P + D (N·G/H + 1)) + Σ_d m_d`` by masks, ``Σ_d (w_d + 2 T) N P`` by states.

    S are the sizes of parts, m_d multiplications to make the mask of topology d, w_d to solve for a column on it.
    """
    N, P, D = state_size, head_size, len(topologies)
    choice = select_solver(topologies, N, P, groups_per_head, solver)
    pairs = list(zip(choice.solvers, topologies, strict=True))
    if choice.form == "state":
        return (sum(s.column_work(t) for s, t in pairs) + 2 * D * topologies[0].num_nodes) * N * P
    entries = int((topologies[0].part_sizes ** 2).sum())
    return entries * (P + D * (N * groups_per_head + 1)) + sum(s.mask_work(t) for s, t in pairs)


def _forward(V: Any, weights: Any, Cs: Any, Bs: Any, scales: Any, topologies: str, solver: str, **_: Any) -> int:
    parts = [topology_of(name) for name in topologies.split(";")]
    lead = torch.broadcast_shapes(V[:-3], *(w[:-2] for w in weights), *(c[:-3] for c in Cs))
    per_head = multiplications(parts, Cs[0][-1], V[-1], Cs[0][-3] / V[-3], solver_of(solver))
    return round(2 * prod(lead) * V[-3] * per_head)


def _backward(grad: Any, tensors: Any, topologies: str, solver: str, **_: Any) -> int:
    """Every product has two gradients."""
    n = topologies.count(";") + 1
    V, weights, Cs = tensors[0], tensors[1 : n + 1], tensors[n + 1 : 2 * n + 1]
    return 2 * _forward(V, weights, Cs, None, None, topologies, solver)


#: For ``FlopCounterMode(custom_mapping=…)``; shapes in, FLOPs out.
FLOP_FORMULAS = {torch.ops.chimera_ssm.mix: _forward, torch.ops.chimera_ssm.mix_backward: _backward}
