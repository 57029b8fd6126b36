"""Kernel infrastructure for GPUs: when Triton kernels run, and what they share. Knows no topology."""
