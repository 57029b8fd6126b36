"""How kernels are compiled: serial, without the interpreter lock, kept on disk."""

from numba import njit

kernel = njit(nogil=True, cache=False, error_model="numpy")
