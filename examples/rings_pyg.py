"""GCNConv and ChimeraConv in one PyG script, `python examples/rings_pyg.py [steps]`: rings, a test of long range.

A ring has a source and, opposite to it, a query, which must tell the colour of the source (4 colours, 25 % by chance).
This is ring transfer of di Giovanni et al. (2023), "On Over-Squashing in Message Passing Neural Networks".
"""

import sys

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv

from chimera_ssm import ChimeraConv

COLOURS = 4


def ring(distance: int) -> Data:
    """A ring of ``2 · distance`` nodes: one-hot colours, and whether a node is the source or the query."""
    size = 2 * distance
    colour, around = torch.randint(COLOURS, (size,)), torch.arange(size)
    x = torch.zeros(size, COLOURS + 2)
    x[around, colour] = x[0, COLOURS] = x[distance, COLOURS + 1] = 1
    edges = torch.stack([around, (around + 1) % size])
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1), y=colour[:1], query=x[:, -1] > 0)


class Network(nn.Module):
    def __init__(self, conv: type, width: int, layers: int = 3):
        super().__init__()
        self.embed, self.classify = nn.Linear(COLOURS + 2, width), nn.Linear(width, COLOURS)
        self.convs = nn.ModuleList(conv(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def forward(self, data: Data) -> torch.Tensor:
        x = self.embed(data.x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + conv(norm(x), data.edge_index).relu()
        return self.classify(x[data.query])


def main(steps: int = 400, distances: range = range(2, 17), lr: float = 3e-3) -> dict[str, float]:
    torch.manual_seed(0)
    found, test = {}, [ring(distance) for distance in distances for _ in range(40)]
    for conv, width in ((GCNConv, 101), (ChimeraConv, 40)):  # of equal size
        network = Network(conv, width)
        optimizer = torch.optim.Adam(network.parameters(), lr)
        for _ in range(steps):
            batch = next(
                iter(DataLoader([ring(d) for d in distances for _ in range(3)], batch_size=3 * len(distances)))
            )
            loss = nn.functional.cross_entropy(network(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        (all_rings,) = DataLoader(test, batch_size=len(test))
        found[conv.__name__] = (network.eval()(all_rings).argmax(1) == all_rings.y).float().mean().item()
        print(
            f"{conv.__name__}: {sum(p.numel() for p in network.parameters()):,} parameters, {found[conv.__name__]:.1%}"
        )
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
