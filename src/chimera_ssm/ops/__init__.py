"""(I − A)⁻¹ for every topology, exact and differentiable, behind three functions.

mask   L                       Dense  Sweep  SparseLU  Squaring       exact
solve  L @ rhs                 Neumann                                truncated, used on request only
mix    (L ⊙ C B̄ᵀ) V            select_solver                          which solver, and why
"""

from chimera_ssm.cpu.workspace import set_workspace_limit
from chimera_ssm.ops.checking import checking
from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.dense.solver import Dense
from chimera_ssm.ops.functional import mask, mix, solve
from chimera_ssm.ops.neumann.solver import Neumann
from chimera_ssm.ops.select import Choice, select_solver
from chimera_ssm.ops.sparse_lu.solver import SparseLU
from chimera_ssm.ops.squaring import Squaring
from chimera_ssm.ops.sweep.solver import Sweep

#: The former name of `SparseLU`.
Elimination = SparseLU

__all__ = [
    "Choice",
    "Dense",
    "Elimination",
    "Neumann",
    "Solver",
    "SparseLU",
    "Squaring",
    "Sweep",
    "checking",
    "mask",
    "mix",
    "select_solver",
    "set_workspace_limit",
    "solve",
]
