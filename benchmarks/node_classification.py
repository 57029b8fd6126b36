"""`ChimeraConv` in place of `GCNConv` in the usual two-layer script: three graphs, three seeds, nothing tuned.

    python benchmarks/node_classification.py [--seeds 3] [--epochs 200] [--graphs blocks,citations,karate]

Accuracy on the test nodes, at the epoch with the best accuracy on the validation nodes; Karate has no validation nodes,
and its accuracy is that of the last epoch.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCNConv
from torch_geometric.utils import stochastic_blockmodel_graph, to_undirected

import chimera_ssm as chimera


def split(data, per_class, num_val, num_test, draw):
    """``per_class`` training nodes of each class, and validation and test nodes among the rest."""
    order = torch.randperm(data.num_nodes, generator=draw)
    data.train = torch.cat([order[data.y[order] == c][:per_class] for c in data.y.unique()])
    rest = order[~torch.isin(order, data.train)]
    data.val, data.test = rest[:num_val], rest[num_val : num_val + num_test]
    return data


def blocks(seed):
    """A stochastic block model: 4 classes of 100 nodes, 5 neighbours in a class and 3 elsewhere, noisy features."""
    draw = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    y = torch.arange(4).repeat_interleave(100)
    edges = stochastic_blockmodel_graph([100] * 4, 0.01 + 0.04 * torch.eye(4), directed=False)
    x = F.one_hot(y, 16) + torch.randn(400, 16, generator=draw)
    return split(Data(x=x, edge_index=edges, y=y), 10, 150, 210, draw)


def citations(seed, nodes=2700, classes=7, words=1433):
    """Like Cora: 18 of 1,433 words in each document, 0.8 of citations within a class, hubs and triangles."""
    random = np.random.default_rng(seed)
    y = random.integers(classes, size=nodes)
    topics, common = random.random((classes, words)) ** 8, random.random(words) ** 8
    topics = 0.4 * topics / topics.sum(1, keepdims=True) + 0.6 * common / common.sum()
    x = np.zeros((nodes, words), np.float32)
    for node in range(nodes):
        x[node, random.choice(words, 18, p=topics[y[node]])] = 1
    ends, degree, near = [], np.ones(nodes), [[] for _ in range(nodes)]
    members = [np.flatnonzero(y == c) for c in range(classes)]
    for node in np.repeat(np.arange(nodes), 2):
        if near[node] and random.random() < 0.5:  # a neighbour of a neighbour
            other = random.choice(near[random.choice(near[node])])
        else:
            among = members[y[node]] if random.random() < 0.8 else np.arange(nodes)
            other = random.choice(among, p=degree[among] / degree[among].sum())
        if other != node:
            ends.append((node, other))
            near[node].append(other)
            near[other].append(node)
            degree[[node, other]] += 1
    data = Data(x=torch.from_numpy(x), edge_index=to_undirected(torch.tensor(np.array(ends).T)), y=torch.from_numpy(y))
    return split(data, 20, 500, 1000, torch.Generator().manual_seed(seed))


def karate(seed):
    """Zachary's karate club, one-hot features, one training node of each class."""
    data = KarateClub()[0]
    data.train, data.test = data.train_mask, ~data.train_mask
    return data


class Network(nn.Module):
    """The usual two layers."""

    def __init__(self, conv, channels, classes):
        super().__init__()
        self.conv1, self.conv2 = conv(channels, 16), conv(16, classes)

    def forward(self, x, edge_index):
        x = F.dropout(self.conv1(x, edge_index).relu(), 0.5, self.training)
        return self.conv2(x, edge_index)


def accuracy(conv, data, seed, epochs):
    """Train, and return the accuracy on test nodes."""
    torch.manual_seed(seed)
    model = Network(conv, data.num_features, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, found = -1.0, 0.0
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(data.x, data.edge_index)[data.train], data.y[data.train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(data.x, data.edge_index).argmax(1) == data.y).float()
        if "val" not in data or right[data.val].mean() > best:
            best = right[data.val].mean().item() if "val" in data else best
            found = right[data.test].mean().item()
    return found


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--graphs", default="blocks,citations,karate")
    args = parser.parse_args()
    for name in args.graphs.split(","):
        for conv in (GCNConv, chimera.ChimeraConv):
            found = [100 * accuracy(conv, globals()[name](seed), seed, args.epochs) for seed in range(args.seeds)]
            print(f"{name:10} {conv.__name__:12} {np.mean(found):.1f} ± {np.std(found):.1f}", flush=True)


if __name__ == "__main__":
    main()
