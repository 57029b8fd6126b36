"""Products in kernels, in each precision, as the interpreter computes them."""

# ruff: noqa: E402

import pytest
import torch

triton = pytest.importorskip("triton")

import triton.language as tl

from chimera_ssm.gpu.availability import is_interpreted
from chimera_ssm.gpu.matmul import dot, low_dtype, precision, uses_tensor_cores


@triton.jit
def _product(x, y, out, LOW: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    tl.store(out + at, dot(tl.load(x + at), tl.load(y + at), LOW, PRECISION))


@pytest.mark.skipif(not is_interpreted(), reason="make test-gpu runs it in Triton's interpreter")
@pytest.mark.parametrize(
    ("dtype", "name", "largest", "least"),
    [
        (torch.float32, "ieee", 1e-6, 0),
        (torch.float32, "tf32", 2e-3, 1e-5),
        (torch.bfloat16, "tf32", 2e-2, 1e-4),
    ],
)
def test_operands_are_rounded(dtype, name, largest, least):
    x, y, out = torch.randn(16, 16), torch.randn(16, 16), torch.empty(16, 16)
    _product[(1,)](x, y, out, LOW=low_dtype(dtype), PRECISION=name)
    error = ((out - x @ y).pow(2).mean().sqrt() / (x @ y).pow(2).mean().sqrt()).item()
    assert least <= error < largest


def test_the_precision_is_that_of_pytorch():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        assert precision() == "ieee"
        assert not uses_tensor_cores(torch.float32)
        assert uses_tensor_cores(torch.bfloat16)
        torch.set_float32_matmul_precision("high")
        assert precision() == "tf32"
        assert uses_tensor_cores(torch.float32)
    finally:
        torch.set_float32_matmul_precision(before)
