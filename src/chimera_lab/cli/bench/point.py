"""One point of the scaling plot, measured in a separate process: `python -m chimera_lab.cli.bench.point CURVE T …`.

Prints seconds and extra bytes of forward + backward as JSON. The system reports peak memory per process, so each point
needs a new one.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from functools import partial

from chimera_lab.cli.bench import topologies
from chimera_lab.cli.bench.measure import take_turns
from chimera_lab.cli.bench.memory import extra_memory
from chimera_lab.cli.bench.workloads import Attention, Mix, Workload

CURVES = ("line both ways", "grid, four DAGs", "molecule-like graph", "planar graph", "attention")
DOES_NOT_FIT = 3  # exit code


def workload(curve: str, num_nodes: int) -> Workload:
    """12 heads of 64, state size 64, batch 1, on about ``num_nodes`` nodes, a power of two."""
    side = 1 << (num_nodes.bit_length() - 1) // 2
    workloads = (
        Mix(partial(topologies.line_both_ways, num_nodes)),
        Mix(partial(topologies.grid_dags, side, num_nodes // side)),
        Mix(partial(topologies.molecules, 1, num_nodes), batch=None),
        Mix(partial(topologies.planar_graphs, 1, num_nodes), batch=None),
        Attention(num_nodes),
    )
    return dict(zip(CURVES, workloads, strict=True))[curve]


def measure_point(curve: str, num_nodes: int, seconds: float) -> dict[str, float]:
    """Best time, and peak extra memory of a call after the first, which compiled kernels and filled caches."""
    function = workload(curve, num_nodes).build().forward_backward
    (timing,) = take_turns([function], seconds)
    return {"seconds": timing.best, "bytes": float(extra_memory(function))}


def _bound_memory() -> None:
    """Make a point that does not fit raise an error before the machine starts to swap."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = int(0.8 * total)
    if hard == resource.RLIM_INFINITY or bound < hard:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


def _main(curve: str, num_nodes: str, seconds: str, threads: str) -> int:
    import torch

    _bound_memory()
    torch.set_num_threads(int(threads))
    try:
        print(json.dumps(measure_point(curve, int(num_nodes), float(seconds))))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error):  # PyTorch's is a RuntimeError
            return DOES_NOT_FIT
        raise
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
