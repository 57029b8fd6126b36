"""β V and its derivatives."""

import pytest
import torch

from chimera_ssm.ops.scaling import scale_rows


@pytest.mark.parametrize("by_nodes", [False, True])
def test_scaled_rows_and_their_derivatives(by_nodes):
    generator = torch.Generator().manual_seed(0)
    scale = torch.rand(2, 3, 5, dtype=torch.float64, generator=generator).requires_grad_()
    V = torch.randn(2, 5, 3, 4, dtype=torch.float64, generator=generator).transpose(1, 2)
    V = (V if by_nodes else V.contiguous()).requires_grad_()
    y = scale_rows(scale, V)
    assert y.equal(scale.unsqueeze(-1) * V)
    assert y.stride() == V.stride()
    assert torch.autograd.gradcheck(scale_rows, (scale, V))
    assert torch.autograd.gradgradcheck(scale_rows, (scale, V))
