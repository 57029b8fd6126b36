"""A first trial of ChimeraConv: are two marked nodes of a graph connected, if the graph is one ring or two?

    python benchmarks/first_trial_pyg.py [seeds]

240 graphs of 12 to 19 nodes for training, 200 for testing. Prints accuracy after 20, 60 and 100 epochs (docs/pyg.md).
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_max_pool, global_mean_pool

from chimera_ssm import ChimeraConv, OnGraph

FAR = {"kind": OnGraph(aggregate="mean", gamma=0.999), "gate": True, "skip": False}
ROWS: dict[str, dict[str, Any]] = {
    "two layers, mean": {"pool": global_mean_pool},
    "two layers, maximum": {},
    "three layers, norms": {"layers": 3, "norms": True, "lr": 5e-3},
    "for answers many hops away": {
        "conv": partial(ChimeraConv, num_heads=4, state_size=16, **FAR), "width": 40, "layers": 3, "norms": True,
        "lr": 5e-3,
    },
    "GCNConv": {"conv": GCNConv, "width": 90, "layers": 3, "norms": True, "lr": 5e-3},
}  # fmt: skip


def ring(nodes: int, first: int = 0) -> torch.Tensor:
    """The edges of a ring, in both directions."""
    nodes_ = torch.arange(nodes)
    edges = torch.stack([nodes_, (nodes_ + 1) % nodes]) + first
    return torch.cat([edges, edges.flip(0)], 1)


def graph(draw: torch.Generator) -> Data:
    """One ring or two, with a marked node in each half; ``y`` is 1 if they are not connected."""

    def number(least: int, end: int) -> int:
        return int(torch.randint(least, end, (1,), generator=draw))

    nodes, two = number(12, 20), number(0, 2)
    half = nodes // 2
    edges = torch.cat([ring(half), ring(nodes - half, half)], 1) if two else ring(nodes)
    x = torch.zeros(nodes, 1)
    x[number(0, half)] = x[half + number(0, nodes - half)] = 1
    return Data(x=x, edge_index=edges, y=torch.tensor([two]))


class Network(nn.Module):
    """Residual layers of a convolution, and an answer for each graph."""

    def __init__(self, conv: Callable[[int, int], nn.Module], width: int, layers: int, norms: bool, pool: Callable):
        super().__init__()
        self.embed, self.classify, self.pool = nn.Linear(1, width), nn.Linear(width, 2), pool
        self.norms = nn.ModuleList(nn.LayerNorm(width) if norms else nn.Identity() for _ in range(layers))
        self.convs = nn.ModuleList(conv(width, width) for _ in range(layers))

    def forward(self, data: Data) -> torch.Tensor:
        x = self.embed(data.x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + conv(norm(x), data.edge_index).relu()
        return self.classify(self.pool(x, data.batch))


def train(
    seed: int,
    conv: Callable[[int, int], nn.Module] = ChimeraConv,
    width: int = 32,
    layers: int = 2,
    norms: bool = False,
    pool: Callable = global_max_pool,
    lr: float = 1e-2,
    epochs: tuple[int, ...] = (20, 60, 100),
) -> list[float]:
    """Accuracy on the test graphs after some epochs."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    graphs = [graph(draw) for _ in range(440)]
    loader, test = DataLoader(graphs[:240], batch_size=32, shuffle=True), Batch.from_data_list(graphs[240:])
    network = Network(conv, width, layers, norms, pool)
    optimizer, found = torch.optim.Adam(network.parameters(), lr), []
    for epoch in range(max(epochs)):
        for batch in loader:
            loss = nn.functional.cross_entropy(network(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            if norms:
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        if epoch + 1 in epochs:
            with torch.no_grad():
                found.append((network(test).argmax(1) == test.y).float().mean().item())
    return found


def main(seeds: int = 2, epochs: tuple[int, ...] = (20, 60, 100)) -> None:
    """Print a line for each network and seed."""
    for name, options in ROWS.items():
        for seed in range(seeds):
            print(
                f"{name}, seed {seed}:",
                *(f"{100 * right:.0f}" for right in train(seed, epochs=epochs, **options)),
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
