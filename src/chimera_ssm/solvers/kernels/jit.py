"""How kernels are compiled: serial, without the interpreter lock, kept on disk."""

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy")
#: A piece of a kernel, written into it where it is called.
inlined = njit(inline="always", error_model="numpy")
