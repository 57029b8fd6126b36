"""The two forms of a mix, ``y = Σ_d (L_d ⊙ C_d B̄_dᵀ) V``: through masks, or through states.

``Z`` is all leading dimensions as one: weights ``[Z, H, E]``, ``C, B [Z, G, T, N]``, ``V [Z, H, T, P]``, scale
``[Z, H, T]``. Where a backend offers a fused implementation for all terms it is used; otherwise the generic ones here
work with any resolvent.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from chimera_ssm.cpu.availability import can_use_kernels
from chimera_ssm.ops import dispatch
from chimera_ssm.ops.contract import BLOCK_ELEMENTS, Resolvent
from chimera_ssm.ops.dense_blocks import join, split
from chimera_ssm.ops.scaling import scale_rows
from chimera_ssm.ops.terms import Term


def mix_by_mask(terms: list[Term], V: Tensor) -> Tensor:
    """The mix through masks: T² work and memory."""
    fused = dispatch.find("mix_by_mask", _algorithm(terms), terms, V)
    return add_masks(terms, V) if fused is None else fused.run(terms, V)


def mix_by_state(terms: list[Term], V: Tensor) -> Tensor:
    """The mix through states ``h = L (B̄ ⊗ v)``, ``y = Cᵀ h``: linear in T."""
    fused = dispatch.find("mix_by_state", _algorithm(terms), terms, V)
    if fused is not None:
        return fused.run(terms, V)
    if len(terms) == 1:
        return _mix_columns(terms[0], scaled(terms[0], V))
    y = [mix_by_state([term], V) for term in terms]
    return sum(y[1:], start=y[0])


def takes_half(form: str, terms: list[Term], V: Tensor) -> bool:
    """Whether V, B and C have 16 bits, and a GPU's kernels take them as they are."""
    operands = [V, *(x for term in terms for x in (term.C, term.B))]
    if V.dtype not in (torch.bfloat16, torch.float16) or any(x.dtype != V.dtype for x in operands):
        return False
    found = dispatch.find(f"mix_by_{form}", _algorithm(terms), terms, V)
    return found is not None and found.takes_half


def _algorithm(terms: list[Term]) -> str:
    """The algorithm that all terms can be computed with together; empty if there is none."""
    names = {term.algorithm for term in terms}
    if len(names) > 1:
        names = {dispatch.GENERALIZATION.get(name, name) for name in names}
    return names.pop() if len(names) == 1 else ""


def scaled(term: Term, V: Tensor) -> Tensor:
    """``β V`` of a term."""
    if term.scale is None:
        return V
    return scale_rows(term.scale, V) if can_use_kernels(term.scale, V) else term.scale.unsqueeze(-1) * V


def add_masks(terms: list[Term], V: Tensor) -> Tensor:
    """Masks of all terms, added up and multiplied with V once; ``C Bᵀ`` of a pair that is given twice is used twice."""
    plan = terms[0].topology.tensors("block_plan", V.device)
    products: dict[tuple[int, int], Tensor] = {}
    total = None
    for term in terms:
        G = term.C.shape[1]
        key = id(term.C), id(term.B)
        if key not in products:
            products[key] = (split(plan, term.C) @ split(plan, term.B).mT).unsqueeze(2)
        mask = split(plan, term.resolvent.mask())
        masked = mask.view(V.shape[0], G, -1, *mask.shape[1:]) * products[key]
        masked = masked.flatten(1, 2)
        if term.scale is not None:
            masked = masked * split(plan, term.scale.unsqueeze(-1)).mT
        total = masked if total is None else total + masked
    assert total is not None
    return join(plan, total @ split(plan, V))


def _mix_columns(term: Term, V: Tensor) -> Tensor:
    """Solve for a block of state channels at a time. Its states are recomputed in the backward pass."""
    block = max(1, BLOCK_ELEMENTS // V.numel())
    blocks = zip(term.C.split(block, -1), term.B.split(block, -1), strict=True)
    y = [
        checkpoint(_mix_block, term.resolvent, C, B, V, use_reentrant=False, preserve_rng_state=False)
        for C, B in blocks
    ]
    return sum(y[1:], start=y[0])


def _mix_block(resolvent: Resolvent, C: Tensor, B: Tensor, V: Tensor) -> Tensor:
    Z, H, T, _ = V.shape
    C, B = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (C, B))
    rhs = B.unsqueeze(-1) * V.unsqueeze(-2)
    states = resolvent.solve(rhs.view(Z * H, T, -1)).reshape(rhs.shape)
    return (C.unsqueeze(-2) @ states).squeeze(-2)
