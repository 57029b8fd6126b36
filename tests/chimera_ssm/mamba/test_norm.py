"""Gated norms of all families: recognised where they norm all features at once, and equal to the original."""

import pytest
import torch
from torch import nn

from chimera_ssm.mamba.norm import fused_norm, is_gated_norm
from tests.chimera_ssm.mamba.tiny import MODELS, model_of


def norms_of(family):
    return [m for m in model_of(family).modules() if type(m).__name__.endswith("RMSNormGated")]


@pytest.mark.parametrize("family", MODELS)
def test_norms_of_one_group_are_recognised(family):
    grouped = family in ("Zamba2", "NemotronH", "FalconH1")  # two groups in the tiny models
    norms = norms_of(family)
    assert [is_gated_norm(m) for m in norms] == [not grouped] * len(norms)
    for norm in norms:
        for name in ("group_size", "n_groups"):
            if name in vars(norm):
                setattr(norm, name, 64 if name == "group_size" else 1)
        assert is_gated_norm(norm) != getattr(norm, "norm_before_gate", False)
        norm.other = 1  # nobody knows what it does
        assert not is_gated_norm(norm)


def test_other_modules_are_not_such_norms():
    assert not any(map(is_gated_norm, (nn.LayerNorm(3), nn.RMSNorm(3), None)))


@pytest.mark.parametrize("eps", [1e-6, 0.1])
@pytest.mark.parametrize("gated", [True, False])
def test_values_and_gradients(eps, gated):
    (norm, _), draw = norms_of("Mamba2"), torch.Generator().manual_seed(0)
    norm.variance_epsilon = eps
    nn.init.uniform_(norm.weight)
    x, wide, grad = (torch.randn(2, 9, n, generator=draw) for n in (64, 100, 64))
    x, wide = x.requires_grad_(), wide.requires_grad_()
    given = (x, wide[..., 7:71]) if gated else (x,)
    found, expected = fused_norm(type(norm).forward)(norm, *given), norm(*given)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    leaves = [x, norm.weight, *([wide] if gated else [])]
    for a, b in zip(*(torch.autograd.grad(y, leaves, grad) for y in (found, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_half_precision_is_left_to_the_original():
    norm = norms_of("Mamba2")[0].bfloat16()
    x = torch.randn(1, 3, 64).bfloat16()
    assert torch.equal(fused_norm(type(norm).forward)(norm, x, x), norm(x, x))
