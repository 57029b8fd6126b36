"""Numba kernels for CPUs, and the plans they run on. Loaded when first used."""
