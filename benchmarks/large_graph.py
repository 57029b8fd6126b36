"""Classes of the nodes of one large graph: a planar one exactly, a random one by a truncated series.

    python benchmarks/large_graph.py [NODES]

100,000 nodes and 600,000 edges unless NODES is given. Features are random, and the class of a node is the sign pattern
of the mean over its neighbours. Prints loss, time and memory of a few steps.
"""

import resource
import sys
import time

import numpy as np
import torch
from matplotlib.tri import Triangulation

import chimera_ssm as chimera

CLASSES, STEPS = 4, 4


def planar(nodes: int, seed: int = 0) -> np.ndarray:
    """The Delaunay triangulation of random points, each edge both ways, ``[2, E]``."""
    edges = Triangulation(*np.random.default_rng(seed).random((2, nodes))).edges.T
    return np.concatenate([edges, edges[::-1]], axis=1)


def random(nodes: int, seed: int = 0) -> np.ndarray:
    """A random graph with as many edges."""
    edges = np.random.default_rng(seed).integers(0, nodes, (2, 3 * nodes))
    edges = np.unique(np.sort(edges[:, edges[0] != edges[1]], axis=0), axis=1)
    return np.concatenate([edges, edges[::-1]], axis=1)


def train(nodes: int, edges: np.ndarray, solver: chimera.Solver | None) -> None:
    """A few steps; says what they took."""
    torch.manual_seed(0)
    edge_index = torch.from_numpy(np.ascontiguousarray(edges))
    x = torch.randn(nodes, 8)
    near = torch.zeros(nodes, 2).index_add(0, edge_index[1], x[edge_index[0], :2])
    labels = (near > 0).long() @ torch.tensor([1, 2])
    conv, head = chimera.ChimeraConv(8, 16, num_heads=1, state_size=4, solver=solver), torch.nn.Linear(16, CLASSES)
    optimizer = torch.optim.AdamW([*conv.parameters(), *head.parameters()], lr=1e-2)
    for step in range(STEPS):
        begin = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(head(conv(x, edge_index)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        seconds = time.perf_counter() - begin
        print(f"  step {step}: loss {loss:.4f}, {seconds:.1f} s, {memory:.2f} GiB at most so far", flush=True)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for name, edges in (("planar", planar(count)), ("random", random(count))):
        print(f"{name}: {count:,} nodes, {edges.shape[1]:,} edges, exactly", flush=True)
        try:
            train(count, edges, None)
        except chimera.TopologyError as error:
            print(f"  refused: {error}\n{name}, Neumann(8)", flush=True)
            train(count, edges, chimera.Neumann(8))
