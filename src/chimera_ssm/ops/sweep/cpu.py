"""Acyclic graphs by CPU kernels: substitution, and mixes through masks or states."""

from __future__ import annotations

from torch import Tensor

from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.spmm.cpu import substitute
from chimera_ssm.ops.sweep.cpu_mask import mix_by_mask
from chimera_ssm.ops.sweep.cpu_state import mix_by_state
from chimera_ssm.topology import Topology


class SweepFactors:
    """Weights of an acyclic topology, for substitution along and against its edges."""

    def __init__(self, topology: Topology, weight: Tensor):
        self.topology, self.weight = topology, weight

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        return substitute(self.topology.flip() if transpose else self.topology, self.weight, rhs)


OPERATIONS = {
    "factorize": Operation(SweepFactors),
    "mix_by_mask": Operation(mix_by_mask),
    "mix_by_state": Operation(mix_by_state),
}
