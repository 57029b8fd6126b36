"""`mask`, `solve` and `mix` in plain PyTorch operators, where no kernel can be called: exports and ``torch.func``.

All sizes may be symbolic. The resolvent is a matrix: on a line, products of weights from cumulative sums of logarithms;
elsewhere a dense inverse, for ONNX, which has none, the series by repeated squaring. T² memory, T² work on lines and T³
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from chimera_ssm.errors import TopologyError
from chimera_ssm.ops.contract import Solver
from chimera_ssm.ops.neumann.solver import Neumann
from chimera_ssm.topology import Line, Topology

#: For ONNX the series has 2¹² terms: exact for paths of up to 4,095 edges, and to 1e-17 for row sums of A up to 0.99.
SQUARINGS = 12


def needs_plain_operators(*topologies: Topology) -> bool:
    """Whether a call is exported with symbolic sizes or edges, exported to ONNX, or transformed by ``torch.func``."""
    return any(t.is_traced for t in topologies) or exporting_to_onnx() or transformed()


def exporting_to_onnx() -> bool:
    """Whether `torch.onnx.export` captures the program."""
    return torch.compiler.is_exporting() and torch.onnx.is_in_onnx_export()


def transformed() -> bool:
    """Whether a transformation of ``torch.func`` is active, such as ``vmap``."""
    return torch._C._are_functorch_transforms_active()


def mask_plain(topology: Topology, weight: Tensor, solver: Solver | None) -> Tensor:
    """L, ``[..., H, T, T]``, in float32 at least."""
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    if isinstance(topology, Line) and not isinstance(solver, Neumann):
        return _line(weight, topology.reverse)
    T, (source, target) = topology.num_nodes, topology.tensors("edge_index", weight.device)
    place = (target * T + source).expand_as(weight)
    A = weight.new_zeros(*weight.shape[:-1], T * T).scatter_add(-1, place, weight).unflatten(-1, (T, T))
    if isinstance(solver, Neumann):
        return _truncated(A, topology, solver)
    if exporting_to_onnx():
        return _series(A)
    return torch.linalg.inv(torch.eye(T, dtype=A.dtype, device=A.device) - A)


def solve_plain(topology: Topology, weight: Tensor, rhs: Tensor, solver: Solver | None) -> Tensor:
    """``L @ rhs``."""
    L = mask_plain(topology, weight.to(torch.promote_types(weight.dtype, rhs.dtype)), solver)
    return (L @ rhs.to(L.dtype)).to(rhs.dtype)


def mix_plain(
    topologies: Sequence[Topology],
    weights: Sequence[Tensor],
    Cs: Sequence[Tensor],
    Bs: Sequence[Tensor],
    V: Tensor,
    scales: Sequence[Tensor | None],
    solver: Solver | None,
) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``."""
    total = None
    for topology, weight, C, B, scale in zip(topologies, weights, Cs, Bs, scales, strict=True):
        L = mask_plain(topology, weight, solver)
        L = L if scale is None else L * scale.to(L.dtype).unsqueeze(-2)
        C, B = _contiguous(C, L), _contiguous(B, L)
        products = (C @ B.mT).repeat_interleave(V.shape[-3] // C.shape[-3], dim=-3)
        total = L * products if total is None else total + L * products
    assert total is not None
    return (total @ _contiguous(V, total)).to(V.dtype)


def _contiguous(x: Tensor, like: Tensor) -> Tensor:
    """In the dtype of another tensor; with other strides, a program exported with a batch of two excludes one."""
    return x.to(like.dtype).contiguous()


def mix_states_plain(
    topology: Topology,
    weight: Tensor,
    C: Tensor,
    B: Tensor,
    V: Tensor,
    scale: Tensor | None,
    initial_state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """``y_t = C_tᵀ h_t`` on a directed line, continued from a state, and the state after the last node."""
    if not isinstance(topology, Line):
        raise TopologyError(f"plain PyTorch operators continue a single Line from a state, found {topology!r}")
    y = mix_plain([topology], [weight], [C], [B], V, [scale], None)
    L = mask_plain(topology, weight, None)
    first, last = (-1, 0) if topology.reverse else (0, -1)
    C, B = (x.to(L.dtype).repeat_interleave(V.shape[-3] // x.shape[-3], dim=-3) for x in (C, B))
    influence = L[..., last, :] if scale is None else L[..., last, :] * scale.to(L.dtype)
    state = (influence.unsqueeze(-1) * B).mT @ V.to(L.dtype)
    if initial_state is None:
        return y, state
    entering, from_first = initial_state.to(L.dtype), L[..., first].unsqueeze(-1)
    return y + (from_first * (C @ entering)).to(y.dtype), state + from_first[..., last, :, None] * entering


def _line(weight: Tensor, reverse: bool) -> Tensor:
    """``L_ij = Π a_k`` over the edges between j and i, for weights of any sign, ``[..., T − 1]``."""
    zero, negative = weight == 0, weight < 0
    logarithms = torch.log(torch.where(zero, 1, weight.abs()).double())
    length, breaks, signs = (F.pad(x, (1, 0)).cumsum(-1) for x in (logarithms, zero.long(), negative.long()))
    sign = 1 - 2 * (signs % 2)
    nodes = torch.arange(weight.shape[-1] + 1, device=weight.device)
    difference = length.unsqueeze(-1) - length.unsqueeze(-2)
    reached = (nodes.unsqueeze(-1) >= nodes) & (breaks.unsqueeze(-1) == breaks.unsqueeze(-2))
    L = torch.exp(difference.masked_fill(~reached, -torch.inf)).to(weight.dtype)
    L = L * (sign.unsqueeze(-1) * sign.unsqueeze(-2)).to(L.dtype)
    return L.mT if reverse else L


def _series(A: Tensor) -> Tensor:
    """``(I + A)(I + A²)(I + A⁴) …``, the sum of 2¹² powers of A."""
    L = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) + A
    for _ in range(SQUARINGS - 1):
        A = A @ A
        L = L + A @ L
    return L


def _truncated(A: Tensor, topology: Topology, solver: Neumann) -> Tensor:
    """The first terms of ``I + A + A² + …``."""
    known = solver.terms is not None or not topology.is_traced
    powers = set(solver.highest_powers(topology)) if known else set()
    if len(powers) != 1:
        raise TopologyError(
            f"the number of terms of {solver} depends on the structure of {topology!r}, which differs from part to "
            "part or is not known here: state it, for example Neumann(terms=8)"
        )
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    L = unit.expand_as(A)
    for _ in range(powers.pop()):
        L = unit + A @ L
    return L
