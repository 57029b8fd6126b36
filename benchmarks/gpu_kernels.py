"""Registers, stack and shared memory of the Triton kernels on three GPUs, none of which has to be there.

python benchmarks/gpu_kernels.py
"""

from chimera_lab.planning.kernels import CASES, kernel_table, launches_of_lines

if __name__ == "__main__":
    print(kernel_table())
    forward, backward = launches_of_lines(CASES[0])
    print(f"\nA mix on a line both ways: {len(forward)} launches forward, {len(backward)} backward.")
