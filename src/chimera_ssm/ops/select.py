"""The automatic choice: which solver, which form of a mix, and why.

| topology                         | solver        | how                                                 |
|----------------------------------|---------------|-----------------------------------------------------|
| disjoint directed paths          | `Sweep`       | one scan                                            |
| acyclic, E ≤ T²/8 or small       | `Sweep`       | in topological order                                |
| acyclic, denser                  | `Dense`       | triangular solve                                    |
| disjoint undirected paths        | `SparseLU` | two scans                                           |
| trees                            | `SparseLU` | no fill                                             |
| other graphs, nnz(L+U) ≤ T²/2    | `SparseLU` | sparse LU                                           |
| other graphs                     | `Dense`       | LU with pivoting; refused where T² would not fit    |
| on CUDA: 2-D grids seen from one | `Sweep`       | Triton kernels, row by row                          |
| corner, at most 64 × 64          |               |                                                     |
| on CUDA: other graphs and DAGs   | `Dense`       | batched LU or triangular solves: few launches, where |
| but paths, 512 nodes in a part   |               | the others have one for each level                  |

The choice depends on the topology, the device and whether Triton is installed, never on weights or timings, and is
always exact. `SparseLU` does not pivot, but for heads whose weights need it: these are solved by dense LU.

A mix goes through masks or states, whichever needs less work: masks ``2 Σ S² (P + D·N·G/H) + 4 Σ_d w_d S``
multiplications per head, with parts of S nodes and w_d multiplications to solve for a column on topology d; states
``(w_d + T)·N·P`` for each, or a scan, weighed by what a multiplication through memory costs more than one in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from chimera_ssm.errors import TopologyError
from chimera_ssm.gpu.availability import is_gpu, triton_is_installed
from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.dense.solver import Dense
from chimera_ssm.ops.sparse_lu.pivoting import MAX_ENTRIES
from chimera_ssm.ops.sparse_lu.solver import SparseLU
from chimera_ssm.ops.sweep.solver import Sweep, is_small_grid
from chimera_ssm.topology import Topology
from chimera_ssm.topology.symbolic_lu import TooMuchFill

_SMALL = 32
#: Largest part of a topology that is solved by batched dense matrices on a GPU.
_DENSE_ON_GPU = 512


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        solvers: a solver for each topology.
        form: ``"mask"`` or ``"state"``, the form of a mix.
        reason: both choices in words.
        work: multiplications of a head in this form.
    """

    solvers: tuple[Solver, ...]
    form: str
    reason: str
    work: float = 0.0

    @property
    def solver(self) -> Solver:
        """The solver, if there is one topology."""
        if len(self.solvers) > 1:
            raise ValueError(f"{len(self.solvers)} topologies have a solver each: see .solvers")
        return self.solvers[0]

    def __str__(self) -> str:
        return self.reason


def select_solver(
    topology: Topology | Sequence[Topology],
    state_size: int = 64,
    head_size: int = 64,
    groups_per_head: float = 1.0,
    solver: Solver | None = None,
    device: torch.device | str = "cpu",
) -> Choice:
    """Tell which solver and which form of a mix are used, and why.

    Args:
        topology: a topology, or several on the same nodes.
        state_size: N.
        head_size: P.
        groups_per_head: G/H, the share of ``C Bᵀ`` that a head has to bear.
        solver: the solver asked for, if any.
        device: where the tensors are.

    Example:
        >>> print(select_solver(Line(4096)))
        Sweep: disjoint directed paths, one scan; state form: 1.0e+08 multiplications per head against …
    """
    topologies = [topology] if isinstance(topology, Topology) else list(topology)
    picks = [exact_solver(t, device) if solver is None else (require(solver, t), "asked for") for t in topologies]
    solvers = tuple(s for s, _ in picks)
    by_mask = _mask_work(topologies, solvers, state_size, head_size, groups_per_head)
    by_states = sum(
        s.state_work(t, state_size, head_size, groups_per_head) for s, t in zip(solvers, topologies, strict=True)
    )
    form, works = ("mask", (by_mask, by_states)) if by_mask < by_states else ("state", (by_states, by_mask))
    which = "; ".join(dict.fromkeys(f"{type(s).__name__}: {r}" for s, r in picks))
    work = "{:.1e} multiplications per head against {:.1e}".format(*works)
    return Choice(solvers, form, f"{which}; {form} form: {work}", works[0])


def exact_solver(topology: Topology, device: torch.device | str = "cpu") -> tuple[Solver, str]:
    """The solver of the table above, and its reason."""
    if topology.is_acyclic and topology.directed_paths is not None:
        return Sweep(), "disjoint directed paths, one scan"
    if topology.undirected_paths is not None:
        return SparseLU(), "disjoint undirected paths, two scans"
    entries, largest = int((topology.part_sizes**2).sum()), int(topology.part_sizes.max())
    on_gpu = is_gpu(device)
    if on_gpu and is_small_grid(topology) and triton_is_installed():
        return Sweep(), "a grid seen from a corner, Triton kernels"
    if on_gpu and largest <= _DENSE_ON_GPU and entries <= MAX_ENTRIES:
        return Dense(), f"at most {largest} nodes in a part, batched dense matrices on a GPU"
    if topology.is_acyclic:
        if 8 * topology.num_edges > entries and topology.num_nodes > _SMALL and entries <= MAX_ENTRIES:
            return Dense(), f"acyclic and dense, {topology.num_edges:,} edges: a triangular solve"
        return Sweep(), f"acyclic, {topology.longest_path + 1:,} levels"
    try:
        fill = topology.elimination_plan(min(max(entries // 2, _SMALL**2), MAX_ENTRIES)).fill
    except TooMuchFill as error:
        if entries <= MAX_ENTRIES:
            return Dense(), f"sparse factors would need {error.entries:,} of {entries:,} entries or more"
        raise TopologyError(
            f"no exact solver fits {topology!r}: {SparseLU().unsupported_reason(topology)}; truncate the series with "
            "solver=Neumann(terms)"
        ) from error
    kind = (
        "forest, no fill" if topology.is_forest else f"sparse LU with {fill / topology.num_nodes:.1f} entries per node"
    )
    return SparseLU(), kind


def require(solver: Solver, topology: Topology) -> Solver:
    """The solver, if it can treat the topology."""
    if not isinstance(solver, Solver):
        raise ValueError(f"solver must be a Solver such as Dense() or Neumann(terms=8), found {solver!r}")
    if (reason := solver.unsupported_reason(topology)) is not None:
        raise TopologyError(
            f"{type(solver).__name__} cannot treat {topology!r}: {reason}; leave the solver out for the fastest "
            "exact one, or truncate the series with Neumann(terms)"
        )
    return solver


def _mask_work(topologies: list[Topology], solvers: Sequence[Solver], N: int, P: int, groups_per_head: float) -> float:
    sizes = topologies[0].part_sizes
    products = int((sizes**2).sum()) * (P + len(topologies) * N * groups_per_head)
    return 2 * (products + 2 * sum(s.mask_work(t) for s, t in zip(solvers, topologies, strict=True)))
