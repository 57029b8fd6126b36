"""The two forms of a mix, ``y = (L ⊙ C B̄ᵀ) V``: through the mask, or through the states.

``Z`` is all leading dimensions as one. Weights ``[Z, H, E]``, ``C, B [Z, G, T, N]``, ``V [Z, H, T, P]``, scale
``[Z, H, T]``.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from chimera_ssm.ops import compiled
from chimera_ssm.ops.contract import BLOCK_ELEMENTS, Resolvent, Solver
from chimera_ssm.ops.dense_blocks import join, split
from chimera_ssm.topology import Topology


class Term:
    """One topology's share of a mix; ``weight [Z, H, E]``."""

    def __init__(self, solver: Solver, topology: Topology, weight: Tensor, C: Tensor, B: Tensor, scale: Tensor | None):
        self.solver, self.topology, self.weight, self.C, self.B, self.scale = solver, topology, weight, C, B, scale

    @cached_property
    def resolvent(self) -> Resolvent:
        """L, made when it is first needed: kernels do without."""
        return self.solver.resolvent(self.topology, self.weight.flatten(0, 1))


def mix_by_mask(terms: list[Term], V: Tensor) -> Tensor:
    """``Σ_d (L_d ⊙ C_d B̄_dᵀ) V``: masks are added up and multiplied with V once; T² work and memory."""
    if _compilable(terms, V):
        return compiled.mix_by_masks(*_columns(terms, V))
    if len(terms) == 1 and (y := terms[0].resolvent.mix_mask(terms[0].C, terms[0].B, _scaled(terms[0], V))) is not None:
        return y
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


def mix_by_states(terms: list[Term], V: Tensor) -> Tensor:
    """The same by states ``h = L (B̄ ⊗ v)``, ``y = Cᵀ h``: linear in T, one topology after the other."""
    if _compilable(terms, V):
        return compiled.mix_by_states(*_columns(terms, V))
    total = None
    for term in terms:
        scaled = _scaled(term, V)
        y = term.resolvent.mix_states(term.C, term.B, scaled)
        y = _mix_columns(term, scaled) if y is None else y
        total = y if total is None else total + y
    assert total is not None
    return total


def _scaled(term: Term, V: Tensor) -> Tensor:
    if term.scale is None:
        return V
    return compiled.scaled(term.scale, V) if compiled.usable(term.scale, V) else term.scale.unsqueeze(-1) * V


def _compilable(terms: list[Term], V: Tensor) -> bool:
    return all(t.solver.sweeps for t in terms) and compiled.usable(V)


def _columns(terms: list[Term], V: Tensor) -> tuple[list, list, list, list, Tensor, list]:
    """Arguments of a compiled mix: topologies, weights, Cs, Bs, V, scales."""
    ones = _ones(V.shape[:3], V.dtype) if any(t.scale is None for t in terms) else None
    return (
        [t.topology for t in terms],
        [t.weight for t in terms],
        [t.C for t in terms],
        [t.B for t in terms],
        V,
        [ones if t.scale is None else t.scale for t in terms],
    )


@lru_cache(maxsize=8)
def _ones(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Kept from call to call; nobody writes here."""
    with torch.inference_mode(False):  # it may be used for training next
        return torch.ones(shape, dtype=dtype)


def _mix_columns(term: Term, V: Tensor) -> Tensor:
    """Solve for a block of state channels at a time. Its states are computed again for the backward pass."""
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
