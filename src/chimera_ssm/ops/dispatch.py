"""Which implementation serves an operation: one table from (algorithm, backend) to modules.

A backend module lists what it offers in ``OPERATIONS``. What it lacks is served by the next backend.

    factorize(topology, weight)      factors that apply L and Lᵀ: behind ``mask`` and ``solve``
    mix_by_mask(terms, V)            Σ_d (L_d ⊙ C_d B̄_dᵀ) V through masks
    mix_by_state(terms, V)           the same through states
    mix_with_states(term, V, state)  on directed lines, with states that enter and leave

To add a backend, write a module in the algorithm's folder and add a line to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from torch import Tensor

from chimera_ssm.cpu.availability import can_use_kernels
from chimera_ssm.gpu.availability import can_use_triton


def _always(*_: Any) -> bool:
    return True


class Operation(NamedTuple):
    """What a backend offers.

    Attributes:
        run: computes it.
        supports: whether it can take these arguments, the same as those of ``run``.
        takes_half: whether a mix takes V, B and C in 16 bits.
    """

    run: Callable[..., Any]
    supports: Callable[..., bool] = _always
    takes_half: bool = False


class Implementation(NamedTuple):
    """What was found for an operation: a function, the backend that it belongs to, and `Operation.takes_half`."""

    backend: str
    run: Callable[..., Any]
    takes_half: bool


#: Backends, the preferred one first, each with its condition on the tensors of a call.
BACKENDS: dict[str, Callable[..., bool]] = {"triton": can_use_triton, "cpu": can_use_kernels, "torch": _always}

#: The module of each algorithm and backend, loaded when it is first needed.
TABLE = {
    ("scan", "triton"): "chimera_ssm.ops.scan.triton",
    ("scan", "cpu"): "chimera_ssm.ops.scan.cpu",
    ("scan", "torch"): "chimera_ssm.ops.scan.torch",
    ("sweep", "triton"): "chimera_ssm.ops.sweep.triton",
    ("sweep", "cpu"): "chimera_ssm.ops.sweep.cpu",
    ("sweep", "torch"): "chimera_ssm.ops.sweep.torch",
    ("tridiagonal", "cpu"): "chimera_ssm.ops.tridiagonal.cpu",
    ("tridiagonal", "torch"): "chimera_ssm.ops.tridiagonal.torch",
    ("sparse_lu", "cpu"): "chimera_ssm.ops.sparse_lu.cpu",
    ("sparse_lu", "torch"): "chimera_ssm.ops.sparse_lu.torch",
    ("neumann", "cpu"): "chimera_ssm.ops.neumann.cpu",
    ("neumann", "torch"): "chimera_ssm.ops.neumann.torch",
    ("spmm", "cpu"): "chimera_ssm.ops.spmm.cpu",
    ("spmm", "torch"): "chimera_ssm.ops.spmm.torch",
    ("dense", "triton"): "chimera_ssm.ops.dense.triton",
    ("dense", "torch"): "chimera_ssm.ops.dense.torch",
    ("squaring", "torch"): "chimera_ssm.ops.squaring",
}

#: Algorithms that can do the work of a more special one: a path is an acyclic graph, a tridiagonal matrix is sparse.
GENERALIZATION = {"scan": "sweep", "tridiagonal": "sparse_lu"}


def find(operation: str, algorithm: str, *args: Any) -> Implementation | None:
    """The implementation of the first backend that offers an operation for these arguments; ``None`` if none does.

    Within a backend the algorithm itself comes before its generalization.
    """
    tensors = [x for x in args if isinstance(x, Tensor)]
    for backend, can_run in BACKENDS.items():
        if not can_run(*tensors):
            continue
        for name in (algorithm, GENERALIZATION.get(algorithm, "")):
            found = _operations(name, backend).get(operation)
            if found is not None and found.supports(*args):
                return Implementation(backend, found.run, found.takes_half)
    return None


def run(operation: str, algorithm: str, *args: Any) -> Any:
    """Compute an operation that some backend offers for all arguments."""
    found = find(operation, algorithm, *args)
    if found is None:
        raise NotImplementedError(f"no backend offers {operation} of {algorithm}: see chimera_ssm.ops.dispatch.TABLE")
    return found.run(*args)


@cache
def _operations(algorithm: str, backend: str) -> dict[str, Operation]:
    if (algorithm, backend) not in TABLE:
        return {}
    return import_module(TABLE[algorithm, backend]).OPERATIONS
