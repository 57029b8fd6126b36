"""How kernels are compiled: serial, without the interpreter lock, kept on disk. Without Numba they stay as they are."""

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
except ImportError:

    def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, uncompiled."""
        return function

else:
    from chimera_ssm.cpu.kernel_cache import with_checked_cache

    def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled when it is first called, or found in the cache."""
        return with_checked_cache(njit(nogil=True, cache=True, error_model="numpy")(function))
