"""NeuralWalker: a state space model along random walks, and message passing; or Chimera in place of the latter."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_lab.baselines.hybrid import gine_layer
from chimera_lab.baselines.node_draws import Places
from chimera_lab.baselines.sorted_nodes import line_mixer
from chimera_lab.baselines.walks import Walks, past_bits, random_walks
from chimera_ssm.models import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.models.graph.heads import pool
from chimera_ssm.models.graph.norms import BatchNorm
from chimera_ssm.topology import UndirectedLine

#: How many nodes before it a node on a walk is compared with.
WINDOW = 16


class WalkLayer(GradientCheckpointingLayer):
    """The layer of NeuralWalker (Chen et al. 2025): walks from half of the nodes, then another layer.

        s_t = x_{w_t} + W e_{w_{t−1} w_t} + U bits_t        y = mixer(s), both ways along the walk
        x_i ← norm(x_i + mean of y over all visits of i)        e ← norm(e + mean of y over all uses of e)
        x, e ← layer(x, e)

    Args:
        config: configuration of the model.
        layer: called as ``layer(x, edge, structure)``.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig, layer: nn.Module):
        super().__init__()
        width, edges = config.hidden_size, config.edge_features is not None
        self.steps = config.walk_length
        self.bits = nn.Linear(2 * WINDOW - 1, width)
        self.edge = nn.Linear(width, width) if edges else None
        self.mixer = line_mixer(config, two_way=True)
        self.norm = BatchNorm(width)
        self.edge_norm = BatchNorm(width) if edges else None
        self.dropout = nn.Dropout(config.dropout)
        self.layer = layer

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        pyg_topology = structure.pyg_topology
        walks = self._walks(structure)
        merged = pyg_topology.features(edge)
        y = self.mixer(self._walk_features(x, merged, walks, structure), UndirectedLine(self.steps + 1))
        x = self.norm(x + self.dropout(_means(y, walks.nodes, len(x))))
        if edge is not None and merged is not None and self.edge_norm is not None:
            update = _means(y[:, 1:], walks.edges, len(merged))
            update = update if pyg_topology.edge is None else update[pyg_topology.edge]
            edge = self.edge_norm(edge + self.dropout(update))
        return self.layer(x, edge, structure)

    def _walks(self, structure: GraphStructure) -> Walks:
        """Walks from half of the nodes of each graph, rounded up."""
        places = Places.of(structure)
        draws = places.draw(self.steps + 1, self.training)
        start = places.sort(draws[:, 0])[2 * places.place < places.sizes[places.graph]]
        return random_walks(structure.pyg_topology.topology, start, draws[start, 1:])

    def _walk_features(self, x: Tensor, edge: Tensor | None, walks: Walks, structure: GraphStructure) -> Tensor:
        bits = past_bits(structure.pyg_topology.topology, walks.nodes, WINDOW)
        features = x[walks.nodes] + self.bits(bits.to(x.dtype))
        if self.edge is None or edge is None:
            return features
        taken = torch.cat([self.edge(edge), edge.new_zeros(1, edge.shape[1])])[walks.edges]  # the last for −1
        return features + nn.functional.pad(taken, (0, 0, 1, 0))


class VirtualNodeLayer(nn.Module):
    """GINE, then a virtual node: ``x ← x + mlp(mean of x over the graph)``.

    Args:
        config: configuration of the model.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        width = config.hidden_size
        self.local = gine_layer(config)
        self.virtual = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        x, edge = self.local(x, edge, structure)
        graph = Places.of(structure).graph
        return x + self.virtual(pool(x, graph, None, "mean"))[graph], edge


def _means(y: Tensor, index: Tensor, size: int) -> Tensor:
    """Means of ``y [walks, steps, dim]`` over equal indices, zero for those that do not occur, ``[size, dim]``."""
    used = index >= 0
    total = y.new_zeros(size, y.shape[-1]).index_add(0, index[used], y[used])
    return total / torch.bincount(index[used], minlength=size).clamp(min=1).unsqueeze(1)
