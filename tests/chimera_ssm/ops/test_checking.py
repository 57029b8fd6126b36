"""Values are checked when asked: what is not finite is named."""

import pytest
import torch

import chimera_ssm as chimera

LINE, WEIGHT = chimera.Line(4), torch.rand(4, 3)


def test_values_are_checked_when_asked():
    weight = WEIGHT.clone()
    weight[1, 2] = torch.nan
    chimera.mask(LINE, weight)  # not asked: no error
    with chimera.checking(), pytest.raises(ValueError, match=r"weight is not finite: 1 of 12 values, .*\[1, 2\]"):
        chimera.mask(LINE, weight)
    singular = chimera.Graph(2, [[0, 1], [1, 0]])
    with chimera.checking(), pytest.raises(ValueError, match=r"not finite.*singular"):
        chimera.solve(singular, torch.ones(1, 2), torch.ones(1, 2, 1))
