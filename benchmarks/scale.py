"""Exact mixes, forward and backward, on large topologies: time and memory beyond the inputs.

    python benchmarks/scale.py

4 heads, N = P = 16, batch 1, float32. A row is a second call: plans and kernels are there. Then a random graph whose
factors would not fit, which is refused before anything is computed.
"""

import time
from functools import partial

import numpy as np

import chimera_ssm as chimera
from chimera_lab.cli.bench import topologies
from chimera_lab.cli.bench.memory import extra_memory
from chimera_lab.cli.bench.workloads import Mix, Topologies


def random_dag(nodes: int, edges: int) -> tuple[chimera.Topology, ...]:
    """Random edges from lower to higher numbers."""
    return (chimera.DAG(nodes, np.sort(_ends(nodes, edges), axis=0)),)


def random_graph(nodes: int, edges: int) -> tuple[chimera.Topology, ...]:
    """Random edges, half of them the other half turned round: few nodes go before all that are left are neighbours."""
    ends = _ends(nodes, edges // 2)
    return (chimera.Graph(nodes, np.concatenate([ends, ends[::-1]], axis=1)),)


def _ends(nodes: int, edges: int) -> np.ndarray:
    """Different pairs of different nodes, a smaller and a larger one, in any order, ``[2, edges]``."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, nodes, (2, edges + edges // 8)), axis=0)
    ends = np.unique(ends[:, ends[0] < ends[1]], axis=1)
    return ends[:, rng.permutation(ends.shape[1])[:edges]]


CASES = {
    "line of 1,000,000": lambda: (chimera.Line(1_000_000),),
    "the same both ways": partial(topologies.line_both_ways, 1_000_000),
    "undirected line of 1,000,000": partial(topologies.undirected_line, 1_000_000),
    "grid of 1024 × 1024, a DAG": lambda: (chimera.GridDAG((1024, 1024)),),
    "the same, four DAGs": partial(topologies.grid_dags, 1024, 1024),
    "planar graph of 100,000": partial(topologies.planar_graphs, 1, 100_000),
    "DAG of 100,000 and 1,000,000 edges": partial(random_dag, 100_000, 1_000_000),
    "random graph of 100,000 and 600,000 edges": partial(random_graph, 100_000, 600_000),
}


def measure(topologies: Topologies) -> str:
    """Seconds of the first and of a second call, and extra memory of the second."""
    step = Mix(topologies, heads=4, state_size=16, head_size=16).build().forward_backward
    begin = time.perf_counter()
    step()
    first = time.perf_counter() - begin
    memory, second = extra_memory(step), time.perf_counter() - begin - first
    return f"{first:.1f} | {second:.1f} | {memory / 1e9:.2f}"


if __name__ == "__main__":
    print("| | first call, s | second, s | extra memory, GB |\n|---|---|---|---|")
    for name, topologies in CASES.items():
        try:
            print(f"| {name} | {measure(topologies)} |", flush=True)
        except chimera.TopologyError as error:
            print(f"\n{name}: {error}")
