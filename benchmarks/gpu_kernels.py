"""Registers, stack and shared memory of the Triton kernels on three GPUs, none of which has to be there.

python benchmarks/gpu_kernels.py
"""

from chimera_lab.planning.kernels import GRIDS, LINES, kernel_table, launches_of

if __name__ == "__main__":
    print(kernel_table() + "\n")
    for name, case in (("a line both ways", LINES[0]), ("a grid from four corners", GRIDS[0])):
        forward, backward = launches_of(case)
        print(f"A mix on {name}: {len(forward)} launches forward, {len(backward)} backward.")
