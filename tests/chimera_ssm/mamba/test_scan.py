"""`mamba_chunk_scan_combined` against the recurrence, step by step in float64: values and every gradient."""

import pytest
import torch

import chimera_ssm as chimera
from tests.chimera_ssm.mamba import slow

OPTIONS = {
    "everything": slow.NAMES,
    "nothing": ("x", "dt", "A", "B", "C"),
    "D": ("x", "dt", "A", "B", "C", "D"),
    "z": ("x", "dt", "A", "B", "C", "z"),
    "state": ("x", "dt", "A", "B", "C", "initial_states"),
}


def call(given, **options):
    rest = {name: x for name, x in given.items() if name not in ("x", "dt", "A", "B", "C")}
    five = (given[name] for name in ("x", "dt", "A", "B", "C"))
    return chimera.mamba_chunk_scan_combined(*five, 16, **rest, **options)


@pytest.mark.parametrize("names", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("softplus", "limit"), [(True, (0.0, float("inf"))), (True, (0.2, 0.9)), (False, (0.0, 1.0))])
def test_values_and_gradients(names, softplus, limit, engine):
    given = {name: x for name, x in slow.arguments().items() if name in names}
    found = call(given, dt_softplus=softplus, dt_limit=limit, return_final_states=True)
    y, states = slow.scan(**given, dt_softplus=softplus, dt_limit=limit)
    slow.assert_same(found, (y, states[:, -1]), list(given.values()))
    torch.testing.assert_close(call(given, dt_softplus=softplus, dt_limit=limit), y)


@pytest.mark.parametrize("sizes", [
    {"length": 1}, {"length": 200, "width": 20, "size": 33}, {"heads": 3, "groups": 3}, {"groups": 1},
    {"skip_width": 5},
], ids=str)  # fmt: skip
def test_sizes(sizes, engine):
    given = slow.arguments(**sizes)
    found = call(given, dt_softplus=True, return_final_states=True)
    y, states = slow.scan(**given, dt_softplus=True)
    slow.assert_same(found, (y, states[:, -1]), list(given.values()))


def test_packed_by_seq_idx(engine):
    """Rows with different sequences, also of one step; the initial state enters the first sequence of a row."""
    given = slow.arguments(batch=3)
    seq_idx = torch.tensor([[0] * 7 + [1] + [2] * 12, [0] * 20, [3] * 19 + [5]], dtype=torch.int32)
    found = call(given, dt_softplus=True, seq_idx=seq_idx, return_final_states=True)
    y, states = slow.scan(**given, dt_softplus=True, seq_idx=seq_idx)
    slow.assert_same(found, (y, states[:, -1]), list(given.values()))


@pytest.mark.parametrize("with_seq_idx", [False, True])
def test_packed_by_cu_seqlens(with_seq_idx, engine):
    given = slow.arguments(batch=1)
    bounds = torch.tensor([0, 7, 8, 20], dtype=torch.int32)
    seq_idx = torch.arange(3).repeat_interleave(bounds.diff())[None]
    options = {"cu_seqlens": bounds, "dt_softplus": True, **({"seq_idx": seq_idx} if with_seq_idx else {})}
    y, states = slow.scan(**given, dt_softplus=True, seq_idx=seq_idx)
    at_ends = states[0, bounds[1:].long() - 1]
    found = call(given, **options, return_final_states=True, return_varlen_states=True)
    slow.assert_same(found, (y, at_ends[-1:], at_ends), list(given.values()))
    slow.assert_same(call(given, **options, return_varlen_states=True), (y, at_ends), list(given.values()))
    slow.assert_same(call(given, **options, return_final_states=True), (y, at_ends[-1:]), list(given.values()))


def test_a_large_step_cuts_without_nan(engine):
    """exp(Δ A) underflows to zero, where logarithms of weights would be infinite."""
    given = slow.arguments()
    with torch.no_grad():
        given["dt"][:, ::3] = 1e5
    y, state = call(given, dt_softplus=True, return_final_states=True)
    expected, states = slow.scan(**given, dt_softplus=True)
    slow.assert_same((y, state), (expected, states[:, -1]), list(given.values()))


def test_half_precision_is_computed_in_float32():
    given = {name: x.detach() for name, x in slow.arguments(length=100).items()}
    half = {name: x.bfloat16() for name, x in given.items()}
    y, state = call(half, dt_softplus=True, return_final_states=True)
    exact, states = slow.scan(**{name: x.double() for name, x in half.items()}, dt_softplus=True)
    assert (y.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(state.double(), states[:, -1], rtol=1e-4, atol=1e-4)


def test_the_result_is_contiguous_and_inputs_may_be_views():
    given = {name: x.detach() for name, x in slow.arguments().items()}
    y = call(given)
    strided = {n: torch.stack([x, x], -1)[..., 0] for n, x in given.items()}
    assert y.is_contiguous()
    assert call(strided).is_contiguous()
    torch.testing.assert_close(call(strided), y)


BAD = {
    "A": (torch.zeros(3), r"A must have shape \[nheads = 4\], found \[3\]"),
    "C": (torch.zeros(2, 20, 2, 4), r"C must have shape \[.*dstate = 3\], found \[2, 20, 2, 4\]"),
    "x": (torch.zeros(2, 20, 20), r"x must have shape \[batch, seqlen, nheads, headdim\], found \[2, 20, 20\]"),
    "dt": (torch.zeros(2, 20, 4).long(), "dt must be a floating point tensor, found torch.int64"),
    "initial_states": (torch.zeros(2, 4, 3, 5), r"headdim = 5, dstate = 3\], found \[2, 4, 3, 5\]"),
    "D": (torch.zeros(4, 6), r"D must have shape \[nheads = 4, headdim = 5\], found \[4, 6\]"),
    "D list": ([1.0] * 4, "D must be a floating point tensor, found list"),
    "dt_limit": ((1.0, 0.5), r"dt_limit must be a smallest and a largest step, found \(1.0, 0.5\)"),
    "dt_limit of one number": (3.0, r"dt_limit must be a smallest and a largest step, found 3.0"),
    "seq_idx": (
        torch.tensor([0] * 19 + [1, *[0] * 10, *[2] * 9, 1]).view(2, 20),
        "found 2 before 1 at step 19 of row 1",
    ),
    "cu_seqlens": (torch.tensor([0, 20]), "cu_seqlens needs a batch of one row, found 2 rows"),
    "return_varlen_states": (True, "return_varlen_states needs cu_seqlens"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    given = {n: x.detach() for n, x in slow.arguments().items()}
    value, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call({**given, name.split()[0]: value})
