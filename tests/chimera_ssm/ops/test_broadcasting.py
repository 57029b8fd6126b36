"""Leading dimensions are broadcast and made one; results are computed in float32 at least, without autocast."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops.broadcasting import broadcast_lead, compute_dtype, flatten_lead, with_columns, without_autocast


def test_leading_dimensions_are_made_one():
    x = torch.randn(3, 1, 5, 2)
    flat = flatten_lead(x, (4, 3, 2), 2)
    assert flat.shape == (24, 5, 2)
    assert torch.equal(flat.view(4, 3, 2, 5, 2)[2, :, 1], x[:, 0])


def test_leading_dimensions_that_do_not_fit_are_named():
    assert broadcast_lead({"weight": (3, 1), "V": (2,)}) == (3, 2)
    with pytest.raises(ValueError, match=r"must broadcast to each other, found weight \[3\], V \[2\]"):
        broadcast_lead({"weight": (3,), "V": (2,)})
    line, x = chimera.Line(4), torch.ones(2, 1, 4, 5)
    with pytest.raises(ValueError, match=r"found V \[2\], weight \[3\], C \[2\], B \[2\]"):
        chimera.mix(line, torch.ones(3, 1, 3), x, x, x)
    with pytest.raises(ValueError, match=r"found weight \[3, 1\], rhs \[2, 1\]"):
        chimera.solve(line, torch.ones(3, 1, 3), x)


def test_there_is_always_a_column():
    assert torch.equal(with_columns(torch.ones(2, 0)), torch.zeros(2, 1))
    x = torch.ones(2, 3)
    assert with_columns(x) is x


def test_the_widest_dtype_and_float32_at_least():
    half, single, double = (torch.zeros(1, dtype=d) for d in (torch.bfloat16, torch.float32, torch.float64))
    assert compute_dtype(half) == compute_dtype(half, single) == torch.float32
    assert compute_dtype(half, double) == torch.float64


def test_autocast_is_off_within():
    x = torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with without_autocast(x):
            assert (x @ x).dtype == torch.float32
