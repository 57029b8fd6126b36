"""How kernels are compiled: serial, without the interpreter lock, cached on disk. Without Numba they stay Python."""

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
except ImportError:

    def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as it is."""
        return function

    inlined = kernel
else:
    from chimera_ssm.cpu.kernel_cache import with_checked_cache

    def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile the function when it is first called, or load it from the cache on disk."""
        return with_checked_cache(njit(nogil=True, cache=True, error_model="numpy")(function))

    #: A piece of a kernel, inlined where it is called.
    inlined = njit(inline="always", error_model="numpy")
