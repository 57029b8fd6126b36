"""Calls of `chimera_ssm.mix` in a step, and their cost where Triton kernels compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from chimera_ssm.ops import custom_ops  # noqa: F401  (defines the operators)

MIX, MIX_BACKWARD = torch.ops.chimera_ssm.mix.default, torch.ops.chimera_ssm.mix_backward.default


class Shape(NamedTuple):
    """A tensor without its values; ``number`` tells tensors of a call apart."""

    size: tuple[int, ...]
    dtype: torch.dtype
    number: int
    contiguous: bool = True

    def made(self, micro: int, samples: int, own: int) -> Tensor:
        """A tensor on ``meta`` with ``micro`` samples for ``samples``, if it has more dimensions than its ``own``."""
        first, *rest = self.size
        size = (first * micro // samples, *rest) if len(self.size) > own else self.size
        *rows, columns = size
        x = torch.empty(*rows, columns + (not self.contiguous), dtype=self.dtype, device="meta")
        return x[..., :columns].requires_grad_()


class MixCall(NamedTuple):
    """The arguments of `chimera_ssm.mix`: shapes, and names of topologies and solver."""

    V: Shape
    weights: tuple[Shape, ...]
    Cs: tuple[Shape, ...]
    Bs: tuple[Shape, ...]
    scales: tuple[Shape, ...]
    topologies: str
    solver: str

    @classmethod
    def of(cls, args: Sequence[Any]) -> MixCall:
        """The call with these arguments of the operator."""
        V, *lists, topologies, solver = args
        numbers: dict[int, int] = {}

        def shape(x: Tensor) -> Shape:
            return Shape(tuple(x.shape), x.dtype, numbers.setdefault(id(x), len(numbers)), x.is_contiguous())

        return cls(shape(V), *(tuple(map(shape, tensors)) for tensors in lists), topologies, solver)

    def tensors(self, micro: int, samples: int) -> list[Tensor]:
        """V, weights, Cs, Bs and scales on ``meta``, with ``micro`` samples in place of ``samples``."""
        made: dict[int, Tensor] = {}
        shapes = [(self.V, 3), *((x, 2) for x in self.weights), *((x, 3) for x in (*self.Cs, *self.Bs))]
        for shape, own in (*shapes, *((x, 2) for x in self.scales)):
            made.setdefault(shape.number, shape.made(micro, samples, own))
        return [made[x.number] for x in (self.V, *self.weights, *self.Cs, *self.Bs, *self.scales)]


def zeros_of(func: Any, args: Sequence[Any]) -> Any:
    """Zeros of the shapes of an operator's results."""
    if func is MIX_BACKWARD:
        return [torch.zeros_like(x) for x in args[1]]
    V, weights, Cs, *_ = args
    lead = torch.broadcast_shapes(*(x.shape[:-2] for x in weights), *(x.shape[:-3] for x in (V, *Cs)))
    return V.new_zeros(*lead, *V.shape[-3:])
