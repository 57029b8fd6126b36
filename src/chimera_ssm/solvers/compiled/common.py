"""What the PyTorch side of all kernels needs: whether they can be used, plans, padding, arrays."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.topology import Topology

if TYPE_CHECKING:
    from chimera_ssm.solvers.kernels.plan import SweepPlan

_log = logging.getLogger("chimera_ssm")


@lru_cache(maxsize=1)
def _numba_is_there() -> bool:
    if find_spec("numba") is not None:
        return True
    _log.warning("numba is not installed: solvers run in plain PyTorch; pip install numba for compiled kernels")
    return False


_plain: ContextVar[bool] = ContextVar("chimera_plain", default=False)


@contextmanager
def plain_pytorch() -> Generator[None]:
    """Within this context solvers run in plain PyTorch, as they do on a GPU; backward passes, too."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def usable(*tensors: Tensor | None) -> bool:
    """Whether kernels can take these tensors: on a CPU, in float32 or float64."""
    return (
        not _plain.get()
        and all(x is None or (x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)) for x in tensors)
        and _numba_is_there()
    )


def quarters(tensors: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Weights, scales, Cs and Bs out of one tuple."""
    n = len(tensors) // 4
    return tensors[:n], tensors[n : 2 * n], tensors[2 * n : 3 * n], tensors[3 * n :]


def padded(x: Tensor, multiple: int) -> Tensor:
    """``x`` with zeros after its last dimension up to a multiple, contiguous."""
    missing = -x.shape[-1] % multiple
    return (pad(x, (0, missing)) if missing else x).contiguous()


def joined_weights(weights: Sequence[Tensor]) -> Tensor:
    """Weights ``[Z, H, E]`` of several topologies in one, ``[D·Z, H, E]``, with zeros where one has fewer edges."""
    size = max([w.shape[-1] for w in weights])
    return torch.cat([w if w.shape[-1] == size else pad(w, (0, size - w.shape[-1])) for w in weights])


def empty(*shape: int, like: Tensor) -> Tensor:
    """NumPy's memory, which asks for large pages: new ones of 4 kB cost more than what is done with them."""
    return torch.from_numpy(np.empty(shape, dtype=str(like.dtype).removeprefix("torch.")))


_backward_only: ContextVar[bool] = ContextVar("chimera_backward_only", default=False)


@contextmanager
def backward_only() -> Generator[None]:
    """Within this context mixes save what their backward passes need and compute nothing: their values are undefined.

    For those who want gradients and have had the values already. What follows a mix must be linear in it.
    """
    token = _backward_only.set(True)
    try:
        yield
    finally:
        _backward_only.reset(token)


def values_wanted() -> bool:
    """Whether a mix has to compute its values, see `backward_only`."""
    return not _backward_only.get()


class Once:
    """A function that makes each tensor's result once, so that what is given twice is also worked on once."""

    def __init__(self, make: Any):
        self.make, self.made = make, {}

    def __call__(self, x: Tensor) -> Tensor:
        if id(x) not in self.made:
            self.made[id(x)] = self.make(x)
        return self.made[id(x)]


def plan_of(topology: Topology, carry: bool) -> SweepPlan:
    """The plan of an acyclic topology's sweeps."""
    from chimera_ssm.solvers.kernels.plan import sweep_plan

    return sweep_plan(topology, carry)


def flipped(topology: Topology) -> Topology:
    """The flipped topology, made once, so that its plans are, too."""
    return topology.once("flipped", topology.flip)


def arrays_of(*tensors: Tensor) -> list[Any]:
    """Contiguous arrays of the same numbers, in the same memory where that is contiguous."""
    return [x.detach().contiguous().numpy() for x in tensors]


def flatten(x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """The memory of ``x [..., K]`` in one row, and the strides of all dimensions but K; copied if columns are apart."""
    if x.stride(-1) != 1:
        x = x.contiguous()
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((extent,), (1,)), x.stride()[:-1]
