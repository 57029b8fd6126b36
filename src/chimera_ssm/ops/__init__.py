"""Solvers: (I − A)⁻¹ for every topology, exact and differentiable, behind three verbs.

mask   L                       Dense  Sweep  Elimination  Squaring    exact
solve  L @ rhs                 Neumann                                truncated, asked for by name
mix    (L ⊙ C B̄ᵀ) V            select_solver                          which, and why
"""

from chimera_ssm.cpu.workspace import set_workspace_limit
from chimera_ssm.ops.checking import checking
from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.dense import Dense
from chimera_ssm.ops.functional import mask, mix, solve
from chimera_ssm.ops.neumann.solver import Neumann
from chimera_ssm.ops.select import Choice, select_solver
from chimera_ssm.ops.sparse_lu.solver import Elimination
from chimera_ssm.ops.squaring import Squaring
from chimera_ssm.ops.sweep.solver import Sweep

__all__ = [
    "Choice",
    "Dense",
    "Elimination",
    "Neumann",
    "Solver",
    "Squaring",
    "Sweep",
    "checking",
    "mask",
    "mix",
    "select_solver",
    "set_workspace_limit",
    "solve",
]
