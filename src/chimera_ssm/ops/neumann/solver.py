"""`Neumann`: the truncated series Σ_{k≤n} Aᵏ, with the gradient of what it computes (paper, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chimera_ssm.ops.contract import Resolvent, Solver
from chimera_ssm.ops.neumann.resolvent import TruncatedResolvent
from chimera_ssm.topology import Topology

#: Entries of a mask that may be stored for each head where this is faster: 16 MB in float32.
_SMALL_MASK = 1 << 22


@dataclass(frozen=True)
class Neumann(Solver):
    """An approximation on any topology: exactly the first terms of ``I + A + A² + …``.

    With terms up to the diameter every node is influenced by every node that can reach it; with terms up to the
    longest path of an acyclic topology the series is complete.

    Args:
        terms: highest power of A; the diameter if omitted, in a union that of each part.
        squared: the paper's product (I + A)(I + A²)…(I + Aᵖ), p the least power of two that is not below
            ``terms``: the same series, up to the power 2p − 1.
    """

    terms: int | None = None
    squared: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.terms, int) and not isinstance(self.terms, bool)
        if self.terms is not None and (not whole or self.terms < 0):
            raise ValueError(f"terms must be a whole number that is not negative, found {self.terms!r}")

    def highest_powers(self, topology: Topology) -> tuple[int, ...]:
        """The highest power of A in the sum, for each part of the topology: a part in a union is as it is alone."""
        terms = [part.diameter if self.terms is None else self.terms for part in topology.parts]
        return tuple(2 * (1 << (max(n, 1) - 1).bit_length()) - 1 if self.squared else n for n in terms)

    def algorithm(self, topology: Topology) -> str:
        return "neumann"

    def resolvent(self, topology: Topology, weight: Tensor) -> Resolvent:
        return TruncatedResolvent(topology, weight, self.highest_powers(topology))

    def column_work(self, topology: Topology) -> int:
        return sum(work for _, work in self._parts(topology))

    def mask_work(self, topology: Topology) -> int:
        return sum(part.num_nodes * work for part, work in self._parts(topology))

    def state_work(self, topology: Topology, N: int, P: int, groups_per_head: float) -> float:
        """Columns cost as much as those of masks, which count four times, and are recomputed in the backward pass.

        Large masks, which are stored for the backward pass, have to be far cheaper.
        """
        weight = 6 if int((topology.part_sizes**2).sum()) <= _SMALL_MASK else 1
        return weight * self.column_work(topology) * N * P

    def _parts(self, topology: Topology) -> list[tuple[Topology, int]]:
        """Parts, and multiplications for a column of each."""
        parts = zip(topology.parts, self.highest_powers(topology), strict=True)
        return [(part, n * part.num_edges + part.num_nodes) for part, n in parts]
