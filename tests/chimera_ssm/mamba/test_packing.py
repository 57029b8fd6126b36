"""Arguments that tell sequences apart reach the base model, and only during the call that they were given to."""

import pytest
import torch
from torch import nn

from chimera_ssm.mamba.packing import pass_on_sequences


class Base(nn.Module):
    def forward(self, x, **kwargs):
        if x is None:
            raise RuntimeError
        return kwargs


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.base_model = Base()

    def forward(self, x, **kwargs):
        return self.base_model(x)


def test_base_models_are_told():
    model, seq_idx = Model(), torch.zeros(1, 3)
    hooks = pass_on_sequences(model)
    assert model(1, seq_idx=seq_idx, other=2) == {"seq_idx": seq_idx}
    assert model(1, cu_seqlens=seq_idx, seq_idx=None) == {"cu_seqlens": seq_idx}
    assert model(1) == model.base_model(1) == {}
    assert model.base_model(1, seq_idx=3) == {"seq_idx": 3}
    with pytest.raises(RuntimeError):
        model(None, seq_idx=seq_idx)
    assert model.base_model(1) == {}
    for hook in hooks:
        hook.remove()
    assert model(1, seq_idx=seq_idx) == {}


def test_models_inside_of_other_modules():
    wrapper = nn.Sequential(Model(), nn.Identity())
    hooks = pass_on_sequences(wrapper)
    assert wrapper[0](1, seq_idx=2) == {"seq_idx": 2}
    assert len(hooks) == 3


def test_models_without_a_base_model_have_no_hooks():
    assert pass_on_sequences(nn.Linear(2, 2)) == []
