"""Inverses of small dense matrices by a Triton kernel: see `chimera_ssm.ops.dense.triton_kernels`."""

from __future__ import annotations

from math import prod

import torch
import triton
from torch import Tensor

from chimera_ssm.gpu.launch import launch, triton_operator
from chimera_ssm.ops.dense.triton_kernels import invert
from chimera_ssm.ops.dense_blocks import dense_blocks, join, split
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.topology import Topology

#: The largest matrix, and columns of a block.
_LARGEST, _BLOCK = 256, 16


def supports(topology: Topology, weight: Tensor) -> bool:
    """Whether the graph has cycles and its parts are small."""
    return not topology.is_acyclic and int(topology.part_sizes.max()) <= _LARGEST


class Inverse:
    """L itself, one matrix for each part."""

    def __init__(self, topology: Topology, weight: Tensor):
        self.plan = topology.tensors("block_plan", weight.device)
        self.mask = _operator(dense_blocks(self.plan, weight))

    def apply(self, rhs: Tensor, transpose: bool) -> Tensor:
        """``L @ rhs`` or ``Lᵀ @ rhs``."""
        return join(self.plan, (self.mask.mT if transpose else self.mask) @ split(self.plan, rhs))

    def rows(self) -> Tensor:
        """The mask, each row within its own part."""
        return join(self.plan, self.mask)


def dense_inverse(A: Tensor) -> Tensor:
    """``(I − A)⁻¹`` of matrices ``[..., S, S]``."""
    S = A.shape[-1]
    X = torch.eye(S, dtype=A.dtype, device=A.device) - A
    inverse, order = torch.empty_like(X), torch.empty(X.shape[:-1], dtype=torch.int32, device=A.device)
    size = max(16, triton.next_power_of_2(S))
    constants = {"SP": size, "BC": _BLOCK, "num_warps": 8 if size > 128 else 4, "num_stages": 1}
    launch(invert, (prod(X.shape[:-2]),), X, inverse, order, S, **constants)
    return inverse


_operator = triton_operator(dense_inverse)

OPERATIONS = {"factorize": Operation(Inverse, supports)}
