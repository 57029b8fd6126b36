"""Convolutions over windows against their definition, node by node."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.nn import window_conv_kernels as kernels

D = 5


def shape_of(topology):
    return getattr(topology, "shape", (topology.num_nodes,))


def slow_window(conv, x, topology):
    """The definition, on one part, with a loop over nodes and places of the window."""
    shape, y = shape_of(topology), conv.bias.repeat(x.shape[0], topology.num_nodes, 1)
    low = 1 - conv.width if conv.causal else -(conv.width // 2)
    sign = -1 if conv.causal and topology.reverse else 1
    for node, here in enumerate(np.ndindex(*shape)):
        for tap in itertools.product(range(conv.width), repeat=conv.num_axes):
            there = [h + sign * (k + low) for h, k in zip(here, tap, strict=True)]
            if all(0 <= t < s for t, s in zip(there, shape, strict=True)):
                y[:, node] += conv.weight[(slice(None), *tap)] * x[:, np.ravel_multi_index(there, shape)]
    return y


WINDOWS = pytest.mark.parametrize(
    ("topology", "width", "causal"),
    [
        (chimera.Line(9), 4, True),
        (chimera.Line(2), 4, True),
        (chimera.Line(9, reverse=True), 4, True),
        (chimera.UndirectedLine(9), 7, False),
        (chimera.UndirectedLine(1), 7, False),
        (chimera.Grid((3, 4)), 3, False),
        (chimera.Grid((1, 4)), 3, False),
        (chimera.Grid((2, 3, 4)), 3, False),
        (chimera.Grid((2, 3, 2, 2)), 3, False),
    ],
)


@WINDOWS
def test_window(topology, width, causal):
    conv = chimera.WindowConv(D, width, len(shape_of(topology)), causal).double()
    x = torch.randn(2, topology.num_nodes, D, dtype=torch.float64)
    expected = slow_window(conv, x, topology)
    torch.testing.assert_close(conv(x, topology), expected)
    packed = conv(torch.cat([x, x], dim=1), chimera.batch([topology, topology]))
    torch.testing.assert_close(packed, torch.cat([expected, expected], dim=1))


@WINDOWS
@pytest.mark.parametrize("channels", [D, 16, 144])
def test_activated_window(topology, width, causal, channels, monkeypatch):
    """By kernels where channels allow, reading a part of wider rows: values and every gradient."""
    monkeypatch.setattr(kernels, "CHANNELS", 64)  # several blocks
    conv = chimera.WindowConv(channels, width, len(shape_of(topology)), causal).double()
    packed = chimera.batch([topology, topology])
    wide = torch.randn(2, packed.num_nodes, channels + 7, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, channels, packed.num_nodes, dtype=torch.float64).mT
    results = []
    for function in (partial(conv, activate=True), lambda x, topology: torch.nn.functional.silu(conv(x, topology))):
        y = function(wide[..., 3:-4], packed)
        results.append([y, *torch.autograd.grad(y, (wide, conv.weight, conv.bias), g)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@WINDOWS
def test_second_derivatives_of_an_activated_window(topology, width, causal):
    conv = chimera.WindowConv(16, width, len(shape_of(topology)), causal).double()
    x = torch.randn(2, topology.num_nodes, 16, dtype=torch.float64, requires_grad=True)

    leaves = x, conv.weight, conv.bias  # gradgradcheck changes these in place
    assert torch.autograd.gradgradcheck(lambda x, *_: conv(x, topology, activate=True), leaves, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("activate", [False, True])
def test_half_precision_is_float32_rounded(dtype, activate):
    """Gradients, too: PyTorch's own, of three axes in bfloat16, come from unset memory now and then."""
    torch.manual_seed(0)
    conv, grid = chimera.WindowConv(32, 3, num_axes=3), chimera.Grid((2, 3, 4))
    x = torch.randn(2, 24, 32).to(dtype)
    with torch.autocast("cpu", dtype=dtype):
        found = conv(x, grid, activate)
    expected = conv(x.float(), grid, activate)
    assert found.dtype == dtype
    assert torch.equal(found, expected.to(dtype))
    for ours, theirs in zip(
        torch.autograd.grad(found.float().sum(), conv.parameters()),
        torch.autograd.grad(expected.sum(), conv.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
