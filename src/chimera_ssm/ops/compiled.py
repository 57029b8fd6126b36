"""The PyTorch side of `chimera_ssm.ops.kernels`: autograd, padding, precision. For CPUs.

Numba is loaded at the first kernel. Where it is missing, plain PyTorch takes over, and the log says so once.
"""

from chimera_ssm.ops.autograd import plain_pytorch, usable
from chimera_ssm.ops.neumann.cpu import fits, series
from chimera_ssm.ops.scaling import scaled
from chimera_ssm.ops.scan.cpu import mix_by_chunks
from chimera_ssm.ops.sparse_lu.cpu import CompiledLDU, lu_mix_mask
from chimera_ssm.ops.sparse_lu.cpu_states import lu_mix_states
from chimera_ssm.ops.sweep.cpu_columns import CompiledSweep, spread
from chimera_ssm.ops.sweep.cpu_masks import mix_by_masks
from chimera_ssm.ops.sweep.cpu_states import mix_by_states
from chimera_ssm.ops.tridiagonal.cpu import path_factors

__all__ = [
    "CompiledLDU",
    "CompiledSweep",
    "fits",
    "lu_mix_mask",
    "lu_mix_states",
    "mix_by_chunks",
    "mix_by_masks",
    "mix_by_states",
    "path_factors",
    "plain_pytorch",
    "scaled",
    "series",
    "spread",
    "usable",
]
