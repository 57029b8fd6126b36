"""How kernels are compiled: as those of topologies; and pieces of kernels."""

from numba import njit

from chimera_ssm.cpu.compilation import kernel

__all__ = ["inlined", "kernel"]

#: A piece of a kernel, written into it where it is called.
inlined = njit(inline="always", error_model="numpy")
