"""`split_columns` equals `Tensor.split`: values, gradients, second derivatives."""

import pytest
import torch

from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.nn.split_columns import split_columns

SIZES = [(3, 4, 1), (0, 5, 3), (8,)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equals_split(sizes, dtype):
    x = torch.randn(2, 5, 8, dtype=dtype, requires_grad=True)
    weights = [torch.randn(2, 5, n, dtype=dtype) for n in sizes]
    results = []
    for split in (split_columns, lambda x, sizes: x.split(list(sizes), dim=-1)):
        parts = split(x, sizes)
        loss = sum((w * part**2).sum() for w, part in zip(weights, parts, strict=True))
        results.append((*parts, *torch.autograd.grad(loss, x)))
    for found, expected in zip(*results, strict=True):
        assert torch.equal(found, expected)


def test_parts_without_gradient_are_zero():
    x = torch.randn(4, 6, requires_grad=True)
    split_columns(x, (2, 3, 1))[1].sum().backward()
    expected = torch.tensor([0.0, 0, 1, 1, 1, 0]).expand(4, 6)
    assert torch.equal(x.grad, expected)


def test_second_derivatives():
    x = torch.randn(3, 6, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: [part**3 for part in split_columns(x, (2, 4))], x)


def test_without_kernels():
    x = torch.randn(3, 6, requires_grad=True)
    with disable_kernels():
        parts = split_columns(x, (2, 4))
    assert "SplitWithSizes" in parts[0].grad_fn.name()
