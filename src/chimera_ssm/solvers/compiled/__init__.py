"""The PyTorch side of `chimera_ssm.solvers.kernels`: autograd, padding, precision. For CPUs.

Numba is loaded at the first kernel. Where it is missing, plain PyTorch takes over, and the log says so once.
"""

from chimera_ssm.solvers.compiled.chunks import mix_by_chunks
from chimera_ssm.solvers.compiled.columns import CompiledSweep, spread
from chimera_ssm.solvers.compiled.common import plain_pytorch, usable
from chimera_ssm.solvers.compiled.lu import CompiledLDU, lu_mix_mask
from chimera_ssm.solvers.compiled.lu_states import lu_mix_states
from chimera_ssm.solvers.compiled.masks import mix_by_masks
from chimera_ssm.solvers.compiled.scaling import scaled
from chimera_ssm.solvers.compiled.series import fits, series
from chimera_ssm.solvers.compiled.states import mix_by_states
from chimera_ssm.solvers.compiled.undirected_line import path_factors

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
