"""Solvers: (I − A)⁻¹ for every topology, exact and differentiable, behind three verbs.

mask   L                       Dense  Sweep  Elimination  Squaring    exact
solve  L @ rhs                 Neumann                                truncated, asked for by name
mix    (L ⊙ C B̄ᵀ) V            select_solver                          which, and why
"""

from chimera_ssm.solvers.base import Solver
from chimera_ssm.solvers.checking import checking
from chimera_ssm.solvers.compiled.workspace import set_workspace_limit
from chimera_ssm.solvers.dense import Dense
from chimera_ssm.solvers.elimination import Elimination
from chimera_ssm.solvers.neumann import Neumann
from chimera_ssm.solvers.select import Choice, select_solver
from chimera_ssm.solvers.squaring import Squaring
from chimera_ssm.solvers.sweep import Sweep
from chimera_ssm.solvers.verbs import mask, mix, solve

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
