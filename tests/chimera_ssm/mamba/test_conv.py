"""Causal convolutions against sums over windows, values and gradients; steps against the whole."""

import pytest
import torch
from torch.nn import functional as F

import chimera_ssm as chimera
from tests.chimera_ssm.mamba import slow


def arguments(dim=16, length=20, width=4, batch=2):
    draw = torch.Generator().manual_seed(0)
    shapes = (batch, length, dim), (dim, width), (dim,), (batch, dim, width - 1)
    x, *others = (torch.randn(s, generator=draw, dtype=torch.float64).requires_grad_() for s in shapes)
    return x, *others


def truth(x, weight, bias, initial, seq_idx, activation):
    """x ``[batch, dim, seqlen]``."""
    width = weight.shape[1]
    whole = torch.cat([initial, x], -1)
    index = F.pad(seq_idx, (width - 1, 0), mode="replicate") if seq_idx.shape[1] > 1 else None
    columns = []
    for t in range(x.shape[-1]):
        window = whole[..., t : t + width]
        if index is not None:
            window = window * (index[:, t : t + width] == seq_idx[:, t : t + 1]).double()[:, None]
        columns.append((window * weight).sum(-1) + (0 if bias is None else bias))
    y = torch.stack(columns, -1)
    return y if activation is None else F.silu(y)


@pytest.mark.parametrize("activation", [None, "silu", "swish"])
@pytest.mark.parametrize("sizes", [{}, {"dim": 5}, {"length": 2}, {"width": 1}, {"width": 2, "batch": 1}], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_values_and_gradients(activation, sizes, packed, engine):
    rows, weight, bias, initial = arguments(**sizes)
    x = rows.mT
    length = x.shape[-1]
    seq_idx = torch.zeros(x.shape[0], length, dtype=torch.long)
    if packed and length > 4:
        seq_idx[:, 5:] += 1
        seq_idx[-1, 7:] += 2
    given = {"activation": activation, "seq_idx": seq_idx if packed else None}
    zero = torch.zeros_like(initial)
    found = chimera.causal_conv1d_fn(x, weight, bias, **given)
    slow.assert_same((found,), (truth(x, weight, bias, zero, seq_idx, activation),), [rows, weight, bias])
    found = chimera.causal_conv1d_fn(x, weight, None, initial_states=initial, return_final_states=True, **given)
    last = torch.cat([initial, x], -1)[..., length:]
    expected = truth(x, weight, None, initial, seq_idx, activation), last
    slow.assert_same(found, expected, [rows, weight, initial] if weight.shape[1] > 1 else [rows, weight])


@pytest.mark.parametrize("kept", [3, 4, 7])
@pytest.mark.parametrize("steps", [1, 3])
def test_steps_equal_the_whole(kept, steps):
    rows, weight, bias, _ = arguments(length=12)
    x = rows.mT.detach()
    whole = chimera.causal_conv1d_fn(x, weight, bias, activation="silu")
    state = torch.zeros(2, 16, kept, dtype=torch.float64)
    pieces = []
    for t in range(0, 12, steps):
        now = x[..., t : t + steps] if steps > 1 else x[..., t]
        y = chimera.causal_conv1d_update(now, state, weight, bias, activation="silu")
        pieces.append(y if steps > 1 else y.unsqueeze(-1))
    torch.testing.assert_close(torch.cat(pieces, -1), whole)
    assert torch.equal(state, F.pad(x, (kept, 0))[..., -kept:])


def test_half_precision():
    rows, weight, bias, _ = (x.detach().bfloat16() for x in arguments())
    y = chimera.causal_conv1d_fn(rows.mT, weight, bias, activation="silu")
    exact = chimera.causal_conv1d_fn(rows.double().mT, weight.double(), bias.double(), activation="silu")
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-4)


def test_errors():
    rows, weight, bias, _ = arguments()
    x = rows.mT
    with pytest.raises(ValueError, match=r"weight must have shape \[dim = 16, width\], found \[4, 16\]"):
        chimera.causal_conv1d_fn(x, weight.mT, bias)
    with pytest.raises(ValueError, match=r"x and weight must not be empty, found \[2, 16, 20\] and \[16, 0\]"):
        chimera.causal_conv1d_fn(x, weight[:, :0], bias)
    with pytest.raises(ValueError, match="activation must be None, 'silu' or 'swish', found 'gelu'"):
        chimera.causal_conv1d_fn(x, weight, bias, activation="gelu")
    with pytest.raises(ValueError, match="seq_idx must not decrease, found 1 before 0 at step 1 of row 0"):
        chimera.causal_conv1d_fn(x, weight, bias, seq_idx=torch.tensor([[1] + [0] * 19] * 2))
    for seq_idx in (torch.zeros(20).long(), torch.zeros(2, 19).long(), [[0] * 20] * 2):
        with pytest.raises(ValueError, match=r"seq_idx must be integers of shape \[2, 20\] = \[batch, seqlen\], found"):
            chimera.causal_conv1d_fn(x, weight, bias, seq_idx=seq_idx, initial_states=torch.zeros(2, 16, 3).double())
    with pytest.raises(ValueError, match="conv_state must hold the last 3 inputs or more, found 2"):
        chimera.causal_conv1d_update(x[..., 0], torch.zeros(2, 16, 2).double(), weight)
