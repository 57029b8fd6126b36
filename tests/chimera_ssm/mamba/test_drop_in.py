"""Replacements take the arguments of `transformers` functions, and leave to these what they do not compute."""

import pytest
import torch
from torch.nn import functional as F

import chimera_ssm as chimera
from chimera_ssm.mamba.drop_in import FUNCTIONS
from tests.chimera_ssm.mamba import slow

X, WEIGHT = torch.randn(1, 16, 10, generator=torch.Generator().manual_seed(0)), torch.ones(16, 4)


def replacement(name, original=None):
    return FUNCTIONS[name][1](original)


def original(*args, **kwargs):
    return "original"


def test_unknown_keyword_arguments_are_dropped():
    given = {name: x.detach() for name, x in slow.arguments().items()}
    x, scan = given.pop("x"), replacement("mamba2_chunk_scan")
    assert torch.equal(scan(x, **given, max_length_q=3), scan(x, **given))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_devices_are_left_to_the_original(name):
    assert replacement(name, original)(torch.zeros(1, 2, 3, device="meta"), 1, keyword=2) == "original"


def test_other_activations_are_left_to_the_original():
    conv = replacement("causal_conv1d_fn", original)
    assert conv(X, WEIGHT, None, activation="gelu") == "original"
    torch.testing.assert_close(
        conv(X, WEIGHT, activation="silu"), F.silu(F.conv1d(F.pad(X, (3, 0)), WEIGHT[:, None], groups=16))
    )


@pytest.mark.parametrize(
    "given", [{"seq_idx": torch.tensor([[0] * 4 + [1] * 6])}, {"cu_seqlens": torch.tensor([0, 4, 10])}]
)
def test_convolutions_are_packed_like_scans(given):
    """A cache may have put columns before those that the indices are for."""
    conv = replacement("causal_conv1d_fn")
    parts = [chimera.causal_conv1d_fn(x, WEIGHT) for x in (X[..., :4], X[..., 4:])]
    torch.testing.assert_close(conv(X, WEIGHT, **given), torch.cat(parts, -1))
    torch.testing.assert_close(conv(F.pad(X, (3, 0)), WEIGHT, **given)[..., 3:], torch.cat(parts, -1))


def test_the_fused_function_tells_the_layer_to_go_on():
    assert replacement("mamba2_split_conv1d_scan_combined", original)(X, 1, D=2) is None
