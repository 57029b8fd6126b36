"""GCNConv, GATv2Conv and ChimeraConv in one script for PyG: which nodes are connected with a marked node?

    python benchmarks/reachability_pyg.py [seeds]

Graphs are mazes of 12 × 12 cells, whose free cells are nodes with an edge to each free neighbour. The answer may be any
number of hops away. All networks have three layers, the same size, the same training and the same learning rate.
"""

import sys
from collections.abc import Callable
from functools import partial
from statistics import mean, pstdev

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, GCNConv
from torch_geometric.utils import grid, subgraph

from chimera_lab.data.mazes import connected_regions, draw_mazes
from chimera_ssm import ChimeraConv, OnGraph

SIDE = 12
PATHS = {"kind": OnGraph(aggregate="mean", gamma=0.999), "gate": True, "skip": False}  # far-reaching, no GCN inside
CONVS = {  # each with its width, of equal size
    "GCNConv": (GCNConv, 90),
    "GATv2Conv": (GATv2Conv, 63),
    "ChimeraConv": (partial(ChimeraConv, num_heads=4, state_size=16, **PATHS), 40),
}


def graphs(count: int, part: str) -> list[Data]:
    """Mazes as graphs: a node has a one where it is marked, ``y`` is one where it is connected with the marked node."""
    edges, found = grid(SIDE, SIDE)[0], []
    edges = edges[:, (edges[0] // SIDE == edges[1] // SIDE) | (edges[0] % SIDE == edges[1] % SIDE)]  # no diagonals
    for pixels in draw_mazes(SIDE, count, part)[0]:
        free, marked = (pixels[0] > 0).flatten(), ((pixels[0] > 0) & (pixels[1] == 0)).flatten().nonzero()[0, 0]
        region = connected_regions((pixels[0] > 0)[None]).flatten()
        x = (torch.arange(SIDE**2) == marked).float()[:, None]
        y = (region == region[marked]).float()
        found.append(Data(x[free], subgraph(free, edges, relabel_nodes=True)[0], y=y[free]))
    return found


class Network(nn.Module):
    """Three residual layers of a convolution, and an answer for each node."""

    def __init__(self, conv: Callable[[int, int], nn.Module], width: int):
        super().__init__()
        self.embed, self.read = nn.Linear(1, width), nn.Linear(width, 1)
        self.convs = nn.ModuleList(conv(width, width) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))

    def forward(self, data: Data) -> torch.Tensor:
        x = self.embed(data.x)
        for conv, norm in zip(self.convs, self.norms, strict=False):
            x = x + conv(norm(x), data.edge_index)
        return self.read(self.norms[-1](x)).squeeze(1)


def accuracy(name: str, seed: int, train: list[Data], test: Data, epochs: int, lr: float) -> float:
    """Train a network, and return the fraction of test nodes that it answers correctly."""
    torch.manual_seed(seed)
    conv, width = CONVS[name]
    network = Network(conv, width)
    optimizer = torch.optim.Adam(network.parameters(), lr)
    for _ in range(epochs):
        for batch in DataLoader(train, batch_size=32, shuffle=True):
            loss = nn.functional.binary_cross_entropy_with_logits(network(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
    with torch.no_grad():
        return ((network.eval()(test) > 0) == test.y).float().mean().item()


def main(seeds: int = 3, epochs: int = 6, count: int = 640, tests: int = 200, lr: float = 5e-3) -> dict[str, float]:
    """Print a line for each convolution, and return the mean accuracies."""
    train, (test,) = graphs(count, "train"), DataLoader(graphs(tests, "new"), batch_size=tests)
    print(f"the more frequent answer: {max(test.y.mean().item(), 1 - test.y.mean().item()):.1%}")
    means = {}
    for name, (conv, width) in CONVS.items():
        found = [accuracy(name, seed, train, test, epochs, lr) for seed in range(seeds)]
        size = sum(p.numel() for p in Network(conv, width).parameters())
        print(f"{name}: {size:,} parameters, {100 * mean(found):.1f} ± {100 * pstdev(found):.1f} % right", flush=True)
        means[name] = mean(found)
    return means


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
