"""FLOPs of mixes, by hand."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import chimera_ssm as chimera
from chimera_ssm.ops.custom_ops import as_operators
from chimera_ssm.ops.flops import FLOP_FORMULAS, multiplications


@pytest.mark.parametrize("length", [7, 2000])
def test_flops_of_a_mix_forward_and_backward(length):
    """Both forms: masks for the short line, states for the long one."""
    line, (H, G, N, P) = chimera.Line(length), (4, 2, 3, 5)
    weight = torch.rand(2, H, length - 1, requires_grad=True)
    C, B, V = torch.randn(2, G, length, N), torch.randn(G, length, N), torch.randn(2, H, length, P)
    with as_operators(), FlopCounterMode(display=False, custom_mapping=FLOP_FORMULAS) as flops:
        chimera.mix(line, weight, C, B, V).sum().backward()
    column = 2 * length - 1
    masks = length**2 * (P + N * G / H + 1) + column * length
    states = (column + 2 * length) * N * P
    form = chimera.select_solver(line, N, P, G / H).form
    assert form == {7: "mask", 2000: "state"}[length]
    by_hand = masks if form == "mask" else states
    assert multiplications([line], N, P, G / H) == by_hand
    counts = flops.get_flop_counts()["Global"]
    assert counts[torch.ops.chimera_ssm.mix] == 2 * 2 * H * by_hand
    assert counts[torch.ops.chimera_ssm.mix_backward] == 2 * counts[torch.ops.chimera_ssm.mix]
