"""One point of the scaling plot, measured in a process of its own: `python -m chimera_lab.cli.bench.point CURVE T …`.

Prints seconds and extra bytes of forward + backward as JSON. Peak memory is a figure of a whole process, so that each
point needs a fresh one.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from functools import partial

from chimera_lab.cli.bench import graphs
from chimera_lab.cli.bench.measure import take_turns
from chimera_lab.cli.bench.memory import extra_memory
from chimera_lab.cli.bench.works import Attention, Mix, Work

CURVES = ("line both ways", "grid, four DAGs", "molecule-like graph", "planar graph", "attention")
DOES_NOT_FIT = 3  # exit code


def work(curve: str, num_nodes: int) -> Work:
    """12 heads of 64, state size 64, batch 1, on about ``num_nodes`` nodes, a power of two."""
    side = 1 << (num_nodes.bit_length() - 1) // 2
    works = (
        Mix(partial(graphs.line_both_ways, num_nodes)),
        Mix(partial(graphs.grid_dags, side, num_nodes // side)),
        Mix(partial(graphs.molecules, 1, num_nodes), batch=None),
        Mix(partial(graphs.planar_graphs, 1, num_nodes), batch=None),
        Attention(num_nodes),
    )
    return dict(zip(CURVES, works, strict=True))[curve]


def measure_point(curve: str, num_nodes: int, seconds: float) -> dict[str, float]:
    """Best time, and peak extra memory of a call that is not the first, whose plans and kernels are kept."""
    function = work(curve, num_nodes).build().forward_backward
    (timing,) = take_turns([function], seconds)
    return {"seconds": timing.best, "bytes": float(extra_memory(function))}


def _bound_memory() -> None:
    """Fail cleanly where a point does not fit, before the machine begins to swap."""
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
