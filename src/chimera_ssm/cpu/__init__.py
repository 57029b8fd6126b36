"""Kernel infrastructure for CPUs: compilation, SIMD, matrix tiles, threads, memory. Knows no topology."""
