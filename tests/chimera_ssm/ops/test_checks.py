"""Bad input to the verbs: what was found, what was expected, what to do."""

import pytest
import torch

import chimera_ssm as chimera

LINE = chimera.Line(4)
WEIGHT, C, B, V = torch.rand(4, 3), torch.rand(2, 4, 3), torch.rand(2, 4, 3), torch.rand(4, 4, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LINE, WEIGHT[:, :2], C, B, V), r"weight must have shape \[..., H, 3\].*Line\(4\).*found \[4, 2\]"),
        ((LINE, WEIGHT.long(), C, B, V), "weight must be floating point.*int64.*float"),
        ((LINE, WEIGHT, C.long(), B, V), "C must be floating point"),
        ((LINE, WEIGHT, C, B, V.long()), "V must be floating point"),
        ((LINE, WEIGHT, C[:, :3], B, V), r"C must have shape \[..., G, 4, N\]"),
        ((LINE, WEIGHT, C, B[..., :2], V), "same groups and state size"),
        ((LINE, WEIGHT[:3], C, B, V[:3]), "3 heads, 2 groups"),
        ((LINE, WEIGHT[:2], C, B, V), "equally many heads, found 2 and 4"),
        ((LINE, WEIGHT, C, B, V, torch.rand(4, 3)), r"scale must have shape \[..., 4, 4\]"),
        ((LINE, "weight", C, B, V), "weight must be a tensor, found str"),
        (("line", WEIGHT, C, B, V), "expected a topology"),
        (([], [], [], [], V), "at least one topology"),
        (([LINE, LINE], [WEIGHT], [C, C], [B, B], V), "weight must have one entry for each of the 2"),
        (([LINE, chimera.Line(5)], [WEIGHT] * 2, [C] * 2, [B] * 2, V), "share their nodes"),
        ((LINE, WEIGHT, C, B, V, None, "dense"), "solver must be a Solver"),
        ((LINE, WEIGHT, C, B, V.expand(0, -1, -1, -1)), r"V is empty, found shape \[0, 4, 4, 5\]: leave empty batches"),
    ],
)
def test_mix(arguments, message):
    with pytest.raises(ValueError, match=message):
        chimera.mix(*arguments)


def test_solve_and_mask():
    with pytest.raises(ValueError, match=r"rhs must have shape \[..., H, 4, K\]"):
        chimera.solve(LINE, WEIGHT, torch.rand(4, 3, 1))
    with pytest.raises(ValueError, match=r"weight must have shape \[..., H, 3\]"):
        chimera.mask(LINE, torch.rand(3))
