"""The slow truth: the equations as they stand, dense, in float64, differentiated by autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from chimera_ssm.topology import Topology


def reference_matrix(topology: Topology, weight: Tensor) -> Tensor:
    """A itself: ``[..., H, E]`` → ``[..., H, T, T]``, float64."""
    source, target = topology.edge_index
    A = torch.zeros(*weight.shape[:-1], topology.num_nodes, topology.num_nodes, dtype=torch.float64)
    A[..., target, source] = weight.double()
    return A


def reference_mask(topology: Topology, weight: Tensor) -> Tensor:
    """``L = (I − A)⁻¹``."""
    return invert(torch.eye(topology.num_nodes, dtype=torch.float64) - reference_matrix(topology, weight))


def invert(matrix: Tensor) -> Tensor:
    """Inverses of ``[..., S, S]``, one after the other: see `chimera_ssm.ops.dense.torch.lu_factor`."""
    return torch.stack([torch.linalg.inv(x) for x in matrix.flatten(0, -3)]).view_as(matrix)


def reference_series(topology: Topology, weight: Tensor, powers: Sequence[int]) -> Tensor:
    """``Σ_{k≤n} Aᵏ``, term by term, n for each part."""
    A = reference_matrix(topology, weight)
    highest = torch.tensor(powers)[topology._part].unsqueeze(-1)
    term = total = torch.eye(topology.num_nodes, dtype=torch.float64).expand_as(A)
    for k in range(1, max(powers) + 1):
        term = A @ term
        total = total + term * (k <= highest)
    return total


def reference_mix(L: Tensor, C: Tensor, B: Tensor, V: Tensor, scale: Tensor | None = None) -> Tensor:
    """``(L ⊙ C B̄ᵀ) V`` with C and B shared by the heads of a group."""
    C, B, V = C.double(), B.double(), V.double()
    products = (C @ B.mT).repeat_interleave(V.shape[-3] // C.shape[-3], dim=-3)
    if scale is not None:
        products = products * scale.double().unsqueeze(-2)
    return (L * products) @ V
