"""`selective_state_update` against the recurrence, and against `mamba_chunk_scan_combined`."""

import pytest
import torch
from torch.nn import functional as F

import chimera_ssm as chimera
from tests.chimera_ssm.mamba import slow


def arguments(batch=3, heads=4, width=5, groups=2, size=6):
    """All arguments but the state, by name; everything differs from channel to channel."""
    draw = torch.Generator().manual_seed(0)
    shapes = {
        "x": (batch, heads, width), "dt": (batch, heads, width), "A": (heads, width, size),
        "B": (batch, groups, size), "C": (batch, groups, size), "D": (heads, width), "z": (batch, heads, width),
        "dt_bias": (heads, width),
    }  # fmt: skip
    given = {n: torch.randn(s, generator=draw, dtype=torch.float64).requires_grad_() for n, s in shapes.items()}
    return torch.randn(batch, heads, width, size, generator=draw, dtype=torch.float64).requires_grad_(), given


def truth(state, x, dt, A, B, C, D, z, dt_bias):
    B, C = (t.repeat_interleave(x.shape[1] // t.shape[1], dim=1) for t in (B, C))
    delta = F.softplus(dt + dt_bias)[..., None]
    h = torch.exp(delta * A) * state + delta * x[..., None] * B[:, :, None]
    return ((h * C[:, :, None]).sum(-1) + D * x) * F.silu(z), h


def test_values_and_gradients():
    state, given = arguments()
    updated = state.clone()
    out = chimera.selective_state_update(updated, **given, dt_softplus=True)
    slow.assert_same((out, updated), truth(state, **given), [state, *given.values()])


def test_without_heads():
    state, given = arguments(heads=1, groups=1)
    state = state.detach()
    flat = {n: x.detach().squeeze(0 if n in ("A", "D", "dt_bias") else 1) for n, x in given.items()}
    updated, squeezed = state.clone(), state.squeeze(1).clone()
    out = chimera.selective_state_update(updated, **{n: x.detach() for n, x in given.items()}, dt_softplus=True)
    torch.testing.assert_close(chimera.selective_state_update(squeezed, **flat, dt_softplus=True), out.squeeze(1))
    torch.testing.assert_close(squeezed, updated.squeeze(1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_of_a_larger_state(dtype):
    state, given = arguments()
    given = {n: x.detach() for n, x in given.items()}
    rows = torch.tensor([4, 0, 2], dtype=dtype)
    several = torch.randn(6, *state.shape[1:], dtype=torch.float64)
    alone, before = several[rows], several.clone()
    expected = chimera.selective_state_update(alone, **given)
    found = chimera.selective_state_update(several, **given, state_batch_indices=rows)
    torch.testing.assert_close((found, several[rows]), (expected, alone))
    assert torch.equal(several[[1, 3, 5]], before[[1, 3, 5]])


def test_expanded_arguments_continue_a_scan():
    """As models call it: A, Δ, D and the bias of a head are those of all its channels."""
    given = {n: x.detach() for n, x in slow.arguments(length=9).items()}
    whole, last = chimera.mamba_chunk_scan_combined(**given, dt_softplus=True, return_final_states=True)
    state, (heads, width), size = given["initial_states"].clone(), given["x"].shape[2:], given["B"].shape[-1]
    for t in range(9):
        now = {n: given[n][:, t] for n in ("x", "B", "C", "z")}
        out = chimera.selective_state_update(
            state, now["x"], given["dt"][:, t, :, None].expand(-1, -1, width),
            given["A"][:, None, None].expand(heads, width, size), now["B"], now["C"],
            given["D"][:, None].expand(heads, width), now["z"], given["dt_bias"][:, None].expand(heads, width), True,
        )  # fmt: skip
        torch.testing.assert_close(out, whole[:, t])
    torch.testing.assert_close(state, last)


def test_half_precision():
    state, given = arguments()
    half = {n: x.detach().bfloat16() for n, x in given.items()}
    updated = state.detach().float()
    out = chimera.selective_state_update(updated, **half, dt_softplus=True)
    exact, h = truth(state.detach().float().double(), **{n: x.double() for n, x in half.items()})
    assert (out.dtype, updated.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(out.double(), exact, rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(updated.double(), h, rtol=1e-5, atol=1e-5)


BAD = {
    "x": (torch.zeros(3, 4), r"x must have shape \[batch, nheads, dim\]"),
    "B": (torch.zeros(3, 3, 6), "found 4 heads and 3 groups"),
    "B of no group": (torch.zeros(3, 0, 6), r"x and B must not be empty, found \[3, 4, 5\] and \[3, 0, 6\]"),
    "A": (torch.zeros(4, 5, 7), r"A must have shape \[nheads = 4, dim = 5, dstate = 6\], found \[4, 5, 7\]"),
    "z": (torch.zeros(3, 4, 6), "z must have shape"),
    "state_batch_indices": (torch.tensor([0, 1, 1]), r"must be different rows of state, 0 to 2, found \[0, 1, 1\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    state, given = arguments()
    value, message = BAD[name]
    given |= {"B": value, "C": value} if name.startswith("B") else {name: value}
    with pytest.raises(ValueError, match=message):
        chimera.selective_state_update(state.clone(), **given)
