"""Factors of undirected paths in PyTorch; equations in `chimera_ssm.ops.tridiagonal.resolvent`."""

from __future__ import annotations

from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from chimera_ssm.ops.broadcasting import without_autocast
from chimera_ssm.ops.contract import exact_resolvent
from chimera_ssm.ops.dispatch import Operation
from chimera_ssm.ops.tridiagonal import resolvent
from chimera_ssm.topology import Line
from chimera_ssm.topology.plans import PathPlan

#: Pivots are at least a half, so that products of this many stay far from underflow in float64.
_LONGEST_PRODUCT = 256


def path_factors(plan: PathPlan, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """θ ``[G, T]``, f⁺ and f⁻ ``[G, T − 1]``, and the largest pivot ``[G]`` from weights ``[G, E]``, in line order."""
    padded = pad(weight, (0, 1)).to(torch.float32 if weight.device.type == "mps" else torch.float64)
    b, a = padded[:, plan.ahead][:, 1:], padded[:, plan.back][:, :-1]
    ahead, back = pivots(a * b), pivots((a * b).flip(1)).flip(1)
    factors = 1 / (ahead + back - 1), b / back[:, 1:], a / ahead[:, :-1]
    theta, fore, aft = (x.to(weight.dtype) for x in factors)
    with torch.no_grad():
        growth = torch.maximum(_largest(ahead, a * b), _largest(back.flip(1), (a * b).flip(1)))
    return theta, fore, aft, growth


def _largest(d: Tensor, p: Tensor) -> Tensor:
    """The largest of pivots ``[G, T]``, infinite where they are not those of ``p [G, T−1]``: see `pivots`."""
    expected = 1 - p / d[:, :-1]
    accurate = (d[:, 1:] - expected).abs() <= 4096 * torch.finfo(d.dtype).eps * (1 + expected.abs())
    return d.abs().amax(1).masked_fill(~accurate.all(1), torch.inf)


def pivots(p: Tensor) -> Tensor:
    """``d_0 = 1, d_{i+1} = 1 − p_i / d_i``: ``[G, T−1]`` → ``[G, T]``, differentiable."""
    return _Pivots.apply(p)


class _Pivots(torch.autograd.Function):
    """Adjoint: ``D_i = g_i + (p_i/d_i²) D_{i+1}``, a line run backward, then ``∂p_i = −D_{i+1}/d_i``."""

    @staticmethod
    def forward(ctx: Any, p: Tensor) -> Tensor:
        d = _continued_fraction(p.detach())
        ctx.save_for_backward(p, d)
        return d

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,) = grads
        p, d = ctx.saved_tensors
        before = d[:, :-1]
        enters = pad((p / before**2).flip(1), (1, 0))
        with without_autocast(grad):
            D = _line_solve(enters, grad.flip(1).unsqueeze(-1)).squeeze(-1).flip(1)
        return -D[:, 1:] / before


def _continued_fraction(p: Tensor) -> Tensor:
    """The pivots as ratios u/v of a linear recurrence ``(u, v) ← (u − p v, u)``, whose steps compose.

    Chunks are composed side by side, then joined one after the other: about 2√T steps instead of T.
    """
    G, links = p.shape
    d = p.new_ones(G, 1)
    if not links:
        return d
    size = min(_LONGEST_PRODUCT, isqrt(links) + 1, links)
    p = pad(p, (0, -links % size)).unflatten(1, (-1, size))
    one, zero = torch.ones_like(p[..., 0]), torch.zeros_like(p[..., 0])
    u, v = (
        torch.stack([one, zero]),
        torch.stack([zero, one]),
    )  # coefficients of d and 1 in the numerator, below it
    steps = []
    for p_k in p.unbind(-1):
        u, v = u - p_k * v, u
        steps.append(torch.cat([u, v]))
    pieces = [d]
    for u_d, u_1, v_d, v_1 in torch.stack(steps, dim=-1).unbind(2):
        pieces.append((u_d * d + u_1) / (v_d * d + v_1))
        d = pieces[-1][:, -1:]
    return torch.cat(pieces, dim=1)[:, : links + 1]


def _line_solve(a: Tensor, rhs: Tensor) -> Tensor:
    """``x_t = a_t x_{t−1} + b_t`` along a line: ``a [G, T]``, ``b [G, T, 1]``; differentiable."""
    return exact_resolvent("scan", Line(a.shape[1]), a[:, 1:]).solve(rhs)


OPERATIONS = {
    "path_factors": Operation(path_factors),
    "resolvent": Operation(resolvent.UndirectedPathResolvent),
    "mix_by_mask": Operation(resolvent.mix_by_mask, resolvent.is_semiseparable),
    "mix_by_state": Operation(resolvent.mix_by_state, resolvent.is_semiseparable),
}
