"""Products of small matrices in kernels, against NumPy."""

import numpy as np
import pytest

from chimera_ssm.cpu import gemm

ROWS, COLUMNS, SIZE = 16, 48, 13


@pytest.fixture(params=[np.float32, np.float64])
def draw(request):
    """Draws a matrix in the middle of wider rows, as kernels take it, and shows it as an array."""
    rng = np.random.default_rng(0)

    def draw(rows, columns):
        memory = rng.normal(size=(rows, columns + 32)).astype(request.param)
        return (memory.ravel(), 16, columns + 32), memory[:, 16 : 16 + columns]

    return draw


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 if found.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("keep", [0, 1, -0.5])
def test_products(draw, keep):
    (a, A), (b, B), (out, C) = draw(ROWS, SIZE), draw(SIZE, COLUMNS), draw(ROWS, COLUMNS)
    expected = keep * C + A @ B
    gemm.multiply(C.dtype.type(keep), out, ROWS, COLUMNS, a, 1, b, SIZE)
    assert_close(C, expected)


def test_products_of_a_transpose(draw):
    (a, A), (b, B), (out, C) = draw(SIZE, ROWS), draw(SIZE, COLUMNS), draw(ROWS, COLUMNS)
    gemm.multiply(C.dtype.type(0), out, ROWS, COLUMNS, (a[0], a[1], 1), a[2], b, SIZE)
    assert_close(C, A.T @ B)


@pytest.mark.parametrize("keep", [0, 1])
def test_products_of_triangular_matrices(draw, keep):
    (a, A), (b, B), (out, C) = draw(ROWS, ROWS), draw(ROWS, COLUMNS), draw(ROWS, COLUMNS)
    A[:] = np.tril(A)
    expected = keep * C + A @ B
    gemm.multiply_lower(C.dtype.type(keep), out, ROWS, COLUMNS, a, b)
    assert_close(C, expected)
    expected = keep * C + A.T @ B
    gemm.multiply_lower_transposed(C.dtype.type(keep), out, ROWS, COLUMNS, a, b)
    assert_close(C, expected)


def test_lower_tiles_of_a_product(draw):
    (a, A), (b, B), (out, C) = draw(COLUMNS, SIZE), draw(SIZE, COLUMNS), draw(COLUMNS, COLUMNS)
    gemm.multiply_to_lower(C.dtype.type(0), out, COLUMNS, a, b, SIZE)
    assert_close(np.tril(C), np.tril(A @ B))


def test_transposes(draw):
    (x, X), (out, Y) = draw(ROWS, COLUMNS), draw(COLUMNS, ROWS)
    gemm.transpose(out, x, ROWS, COLUMNS)
    assert np.array_equal(Y, X.T)
