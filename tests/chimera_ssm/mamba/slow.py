"""The slow truth: Mamba-2 step by step, in the precision of its arguments."""

import torch
from torch.nn import functional as F

NAMES = ("x", "dt", "A", "B", "C", "D", "z", "dt_bias", "initial_states")


def arguments(batch=2, length=20, heads=4, width=5, groups=2, size=3, skip_width=0, dtype=torch.float64):
    """Every argument of a scan, by name, to be differentiated."""
    draw = torch.Generator().manual_seed(0)
    shapes = {
        "x": (batch, length, heads, width),
        "dt": (batch, length, heads),
        "A": (heads,),
        "B": (batch, length, groups, size),
        "C": (batch, length, groups, size),
        "D": (heads, skip_width) if skip_width else (heads,),
        "z": (batch, length, heads, width),
        "dt_bias": (heads,),
        "initial_states": (batch, heads, width, size),
    }
    given = {name: torch.randn(shape, generator=draw, dtype=torch.float64) for name, shape in shapes.items()}
    given["A"] = -given["A"].abs()
    return {name: x.to(dtype).requires_grad_() for name, x in given.items()}


def scan(x, dt, A, B, C, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, dt_softplus=False,
         dt_limit=(0.0, float("inf"))):  # fmt: skip
    """Outputs, and the states after all steps, ``[batch, seqlen, heads, headdim, dstate]``."""
    batch, length, heads, width = x.shape
    B, C = (t.repeat_interleave(heads // t.shape[2], dim=2) for t in (B, C))
    dt = dt if dt_bias is None else dt + dt_bias
    dt = (F.softplus(dt) if dt_softplus else dt).clamp(*dt_limit)
    h = torch.zeros(batch, heads, width, B.shape[-1], dtype=x.dtype) if initial_states is None else initial_states
    outs, states = [], []
    for t in range(length):
        if t and seq_idx is not None:
            h = h * (seq_idx[:, t] == seq_idx[:, t - 1]).to(x.dtype)[:, None, None, None]
        step = dt[:, t, :, None]
        h = torch.exp(step * A[:, None])[..., None] * h + (step * x[:, t])[..., None] * B[:, t, :, None]
        y = (h * C[:, t, :, None]).sum(-1)
        y = y if D is None else y + (D[:, None] if D.dim() == 1 else D) * x[:, t]
        outs.append(y if z is None else y * F.silu(z[:, t]))
        states.append(h)
    return torch.stack(outs, 1), torch.stack(states, 1)


def assert_same(found, expected, given, rtol=1e-8):
    """Values, and the gradient of every argument in ``given``, relative to the largest of each."""
    draw = torch.Generator().manual_seed(1)
    grads = [torch.randn(e.shape, generator=draw, dtype=torch.float64).to(e.dtype) for e in expected]
    of_found = torch.autograd.grad(found, given, grads, allow_unused=True)
    of_expected = torch.autograd.grad(expected, given, grads, allow_unused=True, retain_graph=True)
    for a, b in zip((*found, *of_found), (*expected, *of_expected), strict=True):
        assert (a is None) == (b is None)
        if a is not None and a.numel():
            assert a.shape == b.shape
            assert (a - b).abs().max() <= rtol * b.abs().max()
