"""The truncated series as an operator: dense or sparse, whichever is cheaper."""

from __future__ import annotations

import torch
from torch import Tensor

from chimera_ssm.ops import dispatch
from chimera_ssm.ops.contract import Resolvent
from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.topology import Topology

#: Multiplications of a dense matrix product that cost as much as one of a sparse product, by backend.
_DENSE_ADVANTAGE = {"cpu": 4, "torch": 16}


class TruncatedResolvent(Resolvent):
    """``Σ_{k≤n} Aᵏ``, n for each part: by matrix products where these are cheap, by sparse products otherwise.

    Unequal parts are treated one by one: padded to the largest, molecules would take several times as long.
    """

    def __init__(self, topology: Topology, weight: Tensor, powers: tuple[int, ...]):
        super().__init__(topology, weight)
        self.powers = powers

    def solve(self, rhs: Tensor) -> Tensor:
        series = dispatch.find("series", "neumann", self.topology, self.weight, rhs, self.powers)
        assert series is not None
        if self._dense_is_cheaper(rhs.shape[-1], _DENSE_ADVANTAGE[series.backend]):
            return self._solve_dense(rhs)
        return series.run(self.topology, self.weight, rhs, self.powers)

    def _dense_is_cheaper(self, columns: int, advantage: int) -> bool:
        parts = list(zip(self.topology.parts, self.powers, strict=True))
        dense = sum(2 * n.bit_length() * part.num_nodes**3 for part, n in parts)
        return dense < advantage * columns * sum(n * part.num_edges for part, n in parts)

    def _solve_dense(self, rhs: Tensor) -> Tensor:
        parts = self.topology.parts
        weights = self.weight.split([part.num_edges for part in parts], dim=-1)
        pieces = rhs.split([part.num_nodes for part in parts], dim=-2)
        return torch.cat(
            [_solve_dense(*piece) for piece in zip(parts, weights, pieces, self.powers, strict=True)], dim=-2
        )


def _solve_dense(part: Topology, weight: Tensor, rhs: Tensor, power: int) -> Tensor:
    plan = part.tensors("block_plan", weight.device)
    return join(plan, power_series(dense_blocks(plan, weight), power) @ split(plan, rhs))


def power_series(A: Tensor, power: int) -> Tensor:
    """``I + A + … + Aⁿ`` by doubling: ``S(2m) = S(m) + Aᵐ S(m)``, ``S(m+1) = I + A S(m)`` for m terms."""
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    series, raised = unit, A  # one term, and the power that continues it
    for bit in bin(power + 1)[3:]:
        series, raised = series + raised @ series, raised @ raised
        if bit == "1":
            series, raised = unit + A @ series, A @ raised
    return series
