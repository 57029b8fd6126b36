"""Denormal numbers are zero within kernels only."""

import platform

import numpy as np
import pytest
from numba import njit

from chimera_ssm.cpu.denormals import denormals_as_zero


@njit
def _halve(a):
    a[0] = a[0] / 2


def test_denormal_numbers_are_zero_within_kernels_only():
    smallest = np.finfo(np.float32).smallest_normal
    a, b = np.array([smallest]), np.array([smallest])
    with denormals_as_zero():
        _halve(a)
    _halve(b)
    assert a[0] == 0 or not _x86()
    assert b[0] == smallest / 2
    with pytest.raises(ZeroDivisionError), denormals_as_zero():
        1 // 0  # noqa: B018
    _halve(b)
    assert b[0] == smallest / 4


def _x86():
    return platform.machine().lower() in ("x86_64", "amd64")
