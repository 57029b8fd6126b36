"""General graphs by CPU kernels: factors, and mixes through masks or states."""

from __future__ import annotations

from torch import Tensor

from chimera_ssm.ops.contract import Factors
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.sparse_lu.cpu_factors import LDU, has_factors
from chimera_ssm.ops.sparse_lu.cpu_mask import mix_by_mask
from chimera_ssm.ops.sparse_lu.cpu_state import mix_by_state
from chimera_ssm.ops.sparse_lu.pivoting import pivot_where_needed
from chimera_ssm.topology import Topology


def factorize(topology: Topology, weight: Tensor) -> Factors:
    """Factors of I − A, with pivoting for heads that need it."""
    return pivot_where_needed(topology, weight, LDU(topology, weight))


OPERATIONS = {
    "factorize": Operation(factorize),
    "mix_by_mask": Operation(mix_by_mask, has_factors),
    "mix_by_state": Operation(mix_by_state, has_factors),
}
