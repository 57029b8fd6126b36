"""The share of the resolvent: its definition, and its size when training starts."""

import pytest
import torch
from torch import nn

import chimera_ssm as chimera


def test_share_is_the_ratio_of_the_mixed_term_to_the_skip_connection():
    torch.manual_seed(0)
    mixer, line = chimera.Chimera(16, 2, 8, kind=chimera.OnLine()), chimera.Line(9)
    x = torch.randn(3, 9, 16)
    with torch.no_grad():
        mixer.norm.D.copy_(torch.tensor([2.0, 0.5]))
        (found,) = chimera.resolvent_share(mixer, x, line)
        _, features, steps, _ = mixer.in_proj(x).split(mixer.splits, dim=-1)
        V, B, C = mixer._heads(mixer.conv(features, line, activate=True))
        terms = mixer.kind.terms(line, mixer._steps(steps), None, None)
        mixed = chimera.mix(*mixer._operands(terms, V, B, C))
        expected = mixed.square().mean().sqrt() / (mixer.norm.D[:, None, None] * V).square().mean().sqrt()
    assert found == pytest.approx(expected.item(), rel=1e-5)


def test_a_model_without_mixers_is_refused():
    with pytest.raises(ValueError, match="Linear has no Chimera mixer"):
        chimera.resolvent_share(nn.Linear(2, 2), torch.randn(1, 2))
