"""The norm against PyTorch's, values and gradients."""

from functools import partial

import pytest
import torch
from torch.autograd import gradgradcheck
from torch.nn import functional as F

from chimera_ssm.nn.norm import RMSNorm, gated_rms_norm, head_rms_norm

SHAPES = [(5,), (3, 4), (2, 3, 40), (1, 1), (0, 4)]


def inputs(shape, dtype=torch.float64):
    torch.manual_seed(0)
    x, gate, weight = torch.randn(shape), torch.randn(shape), torch.randn(shape[-1])
    return [t.to(dtype).requires_grad_() for t in (x, gate, weight)]


def plain(x, gate, weight, eps=1e-5):
    return F.rms_norm(x if gate is None else x * F.silu(gate), (x.shape[-1],), weight, eps)


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(shape, gated):
    x, gate, weight = inputs(shape)
    gate = gate if gated else None
    wanted = [t for t in (x, gate, weight) if t is not None]
    found, expected = gated_rms_norm(x, gate, weight), plain(x, gate, weight)
    torch.testing.assert_close(found, expected)
    g = torch.randn_like(found)
    for a, b in zip(torch.autograd.grad(found, wanted, g), torch.autograd.grad(expected, wanted, g), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (1, 1, 1, 16), (3, 2, 37, 24), (2, 3, 5, 7), (0, 2, 3, 8)])
def test_heads(shape, dtype, gated, engine):
    """Reading parts of wider rows, against the equation in float64."""
    torch.manual_seed(0)
    Z, H, T, P = shape
    x, skip, weight = torch.randn(shape, dtype=dtype), torch.randn(H, dtype=dtype), torch.randn(H * P, dtype=dtype)
    V, gate = (torch.randn(Z, T, H * P + 3, dtype=dtype) for _ in range(2))
    g = torch.randn(Z, H * P, T, dtype=dtype).mT

    def run(norm, dtype):
        leaves = [t.to(dtype).requires_grad_() for t in (x, V, skip, gate, weight)]
        x_, V_, skip_, gate_, weight_ = leaves
        V_ = V_[..., 2:-1].unflatten(-1, (H, P)).transpose(1, 2)
        y = norm(x_, V_, skip_, gate_[..., 1:-2] if gated else None, weight_)
        wanted = leaves if gated else [x_, leaves[1], skip_, weight_]
        return [y, *torch.autograd.grad(y, wanted, g.to(dtype))]

    def equation(x, V, skip, gate, weight):
        return plain((x + skip[:, None, None] * V).transpose(1, 2).flatten(2), gate, weight)

    expected = run(equation, torch.float64)
    found = run(head_rms_norm, dtype)
    near = {"rtol": 1e-5, "atol": 1e-4 if dtype == torch.float32 else 1e-10}
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b.to(dtype), **near)


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("width", [5, 16])
def test_second_derivatives(width, gated, engine):
    x, gate, weight = inputs((2, width))
    gates = (gate,) if gated else ()
    assert gradgradcheck(lambda x, w, g=None: gated_rms_norm(x, g, w), (x, weight, *gates), fast_mode=True)
    V, skip = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((1, 2, 3, width), (2,)))
    y, gate, weight = inputs((1, 3, 2 * width))
    arguments = y.detach().view(1, 2, 3, width).requires_grad_(), V, skip, weight, *((gate,) if gated else ())
    assert gradgradcheck(lambda x, V, s, w, g=None: head_rms_norm(x, V, s, g, w), arguments, fast_mode=True)


def test_strided_inputs_and_gradients():
    x, gate, weight = inputs((6, 40))
    views = x.view(6, 2, 20)[:, 1], gate.view(20, 12)[:, ::2].mT
    results = []
    for norm in (gated_rms_norm, plain):
        y = norm(*views, weight[:20])
        results.append([y, *torch.autograd.grad(y.sum() + y.mT[3].sum(), (x, gate, weight))])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("eps", [1e-8, 0.5])
def test_eps(eps, engine):
    """Small rows, of which eps is a large part, by kernels and without."""
    for width in (16, 5):
        x, gate, weight = inputs((3, width))
        x, gate, weight = ((1e-2 * t).detach().requires_grad_() for t in (x, gate, weight))
        found, expected = gated_rms_norm(x, gate, weight, eps), plain(x, gate, weight, eps)
        torch.testing.assert_close(found, expected)
        for a, b in zip(*(torch.autograd.grad(y.sum(), (x, gate, weight)) for y in (found, expected)), strict=True):
            torch.testing.assert_close(a, b)
        assert gradgradcheck(partial(without_gate, eps=eps), (x, weight), fast_mode=True)
    assert RMSNorm(8, eps).eps == eps


def without_gate(x, weight, eps):
    return gated_rms_norm(x, None, weight, eps)


def test_rows_of_zeros_are_finite():
    x, gate, weight = inputs((2, 4))
    y = gated_rms_norm(x * 0, gate, weight)
    y.sum().backward()
    assert (y == 0).all()
    assert all(t.grad.isfinite().all() for t in (x, gate, weight))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    x, gate, weight = inputs((4, 64), dtype)
    y = gated_rms_norm(x, gate, weight)
    assert y.dtype == dtype
    expected = plain(x.double(), gate.double(), weight.double())
    assert (y - expected).norm() < 0.02 * expected.norm()
    mixed = gated_rms_norm(x.float(), gate, weight)
    assert mixed.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        again = gated_rms_norm(x.float(), gate, weight)
        again.sum().backward()
    assert torch.equal(mixed, again)
    assert all(t.grad.isfinite().all() for t in (x, gate, weight))


def test_module():
    ours, theirs = RMSNorm(8), torch.nn.RMSNorm(8, eps=1e-5)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = torch.randn(3, 8)
    torch.testing.assert_close(ours(x), theirs(x))


def test_little_is_kept_for_the_backward_pass():
    x, gate, weight = inputs((64, 512), torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        gated_rms_norm(x, gate, weight)
    assert sum(kept) <= 2 * x.numel() + 64 + 512
