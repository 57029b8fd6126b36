"""Vectors of sixteen numbers in kernels, against NumPy."""

import numpy as np
import pytest
from numba import njit

from chimera_ssm.cpu import simd


@njit
def _vector_arithmetic(a, out):
    x, y = simd.vload(a, 0), simd.vload(a, 16)
    simd.vstore(out, 0, x * y + 2 * x - y)
    simd.store(out, 16, simd.horizontal_sum(x))
    simd.store(out, 17, simd.load(a, 11))
    simd.add_totals(out, 18, x, y, x + y, simd.splat(simd.load(a, 1)))
    simd.vstore(out, 22, simd.fma(3, simd.vload_8(a, 1), simd.vload_8(a, 2)))
    simd.store(out, 30, simd.horizontal_sum(simd.vload_4(a, 5) * simd.splat_4(simd.load(a, 2))))
    memory = simd.aligned_empty(17, a.dtype)
    simd.store(out, 31, a.dtype.type(memory.ctypes.data % (16 * a.itemsize)) + memory.size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors(dtype):
    a = np.arange(32, dtype=dtype) + 1
    out = np.ones(32, dtype=dtype)
    _vector_arithmetic(a, out)
    x, y = a[:16], a[16:]
    sums = 1 + np.array([x.sum(), y.sum(), x.sum() + y.sum(), 16 * a[1]])
    others = 3 * a[1:9] + a[2:10], [a[5:9].sum() * a[2], 17]
    np.testing.assert_allclose(out, np.concatenate([x * y + 2 * x - y, [x.sum(), a[11]], sums, *others]))


@njit
def _vector_functions(a, b, out):
    for k in range(0, a.size, 16):
        simd.vstore(out, k, simd.exp(simd.vload(a, k)) / simd.vload(b, k))


@pytest.mark.parametrize(("dtype", "bound", "ulps"), [(np.float32, 87, 4), (np.float64, 708, 4)])
def test_functions_of_vectors(dtype, bound, ulps):
    """Within a few units of the last place; what is too large or too small stays finite, NaN stays NaN."""
    a = np.random.default_rng(0).uniform(-bound, bound, 4096).astype(dtype)
    a[:9] = 0, 1, -1, bound, -bound, 2 * bound, -2 * bound, np.inf, -np.inf
    b = np.linspace(0.5, 2, a.size, dtype=dtype)
    out = np.empty_like(a)
    _vector_functions(a, b, out)
    expected = np.exp(np.clip(a, -bound, bound).astype(np.longdouble)) / b
    np.testing.assert_allclose(out, expected.astype(dtype), rtol=ulps * np.finfo(dtype).eps)
    a[:16] = np.nan
    _vector_functions(a[:16], b[:16], out[:16])
    assert np.isnan(out[:16]).all()
