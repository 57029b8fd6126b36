"""Matrix products in Triton kernels, with operands in a chosen precision and sums in float32."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from chimera_ssm.gpu.availability import is_interpreted

_INTERPRETED = tl.constexpr(is_interpreted())


@triton.jit
def _as_tf32(x):  # type: ignore[no-untyped-def]
    """``x`` with 10 bits of mantissa, rounded to nearest, as a tensor core reads it."""
    return ((x.to(tl.float32).to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def dot(a, b, LOW: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """``a @ b`` with operands rounded to the dtype ``LOW``; float32 as ``PRECISION``, ``"ieee"`` or ``"tf32"``.

    The interpreter ignores the precision and cannot multiply bfloat16, so that rounding is done here for it.
    """
    a, b = a.to(LOW), b.to(LOW)
    if _INTERPRETED:
        a, b = a.to(tl.float32), b.to(tl.float32)
        if PRECISION == "tf32" and LOW == tl.float32:  # noqa: SIM300
            a, b = _as_tf32(a), _as_tf32(b)
        return tl.dot(a, b, input_precision="ieee")
    else:  # an early return would have to have the same type
        return tl.dot(a, b, input_precision=PRECISION)


def precision() -> str:
    """The precision of products of float32: PyTorch's setting, `torch.set_float32_matmul_precision`."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def low_dtype(dtype: torch.dtype) -> tl.dtype:
    """Triton's name of the dtype of operands."""
    return {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(dtype, tl.float32)


def uses_tensor_cores(dtype: torch.dtype) -> bool:
    """Whether products of this dtype are computed by tensor cores: all but those of float32 in full precision."""
    return dtype != torch.float32 or precision() == "tf32"
