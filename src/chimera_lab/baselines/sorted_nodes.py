"""State space models over nodes sorted by degree: Graph-Mamba, and Graph Mamba with tokens of random walks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_lab.baselines.hybrid import gated_conv
from chimera_lab.baselines.node_draws import Places
from chimera_lab.baselines.walks import random_walks
from chimera_ssm.models import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.models.graph.norms import BatchNorm
from chimera_ssm.nn import Chimera, OnLine, OnTwoLines
from chimera_ssm.topology import Line, UndirectedLine, batch

#: Orders that Graph-Mamba averages in evaluation.
DRAWS = 5
#: Graph Mamba: walks from each node, and steps of each, which is the number of tokens beside the node's own.
WALKS, STEPS = 4, 4


def line_mixer(config: ChimeraGraphConfig, two_way: bool = False) -> Chimera:
    """`Chimera` on a line in place of Mamba: causal, or as the sum of a forward and a backward line."""
    kind = OnTwoLines() if two_way else OnLine()
    return Chimera(config.hidden_size, config.num_heads, config.state_size, config.expand, kind=kind)


class SortedMamba(nn.Module):
    """A line mixer over the nodes of each graph, sorted by degree plus noise; then the order is undone (Wang et al.).

    Nodes of high degree come last, where a causal mixer sees all others. In evaluation the mean over several orders is
    taken.

    Args:
        config: configuration of the model.
        two_way: whether the mixer is bidirectional.
        draws: number of orders in evaluation.

    Shapes: ``x [T, hidden_size]`` → ``[T, hidden_size]``.
    """

    def __init__(self, config: ChimeraGraphConfig, two_way: bool = False, draws: int = DRAWS):
        super().__init__()
        self.line, self.draws = UndirectedLine if two_way else Line, draws
        self.mixer = line_mixer(config, two_way)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> Tensor:
        places = Places.of(structure)
        degree = torch.bincount(structure.edge_index[1], minlength=len(x))
        noise = places.draw(1 if self.training else self.draws, self.training)
        order = torch.stack([places.sort(key) for key in (degree.unsqueeze(1) + noise).unbind(1)])
        y = self.mixer(x[order], batch([self.line(size) for size in places.sizes.tolist()]))
        inverse = order.argsort(dim=1).unsqueeze(-1).expand_as(y)
        return y.gather(1, inverse).mean(0)


class GraphMambaLayer(GradientCheckpointingLayer):
    """The layer of Graph Mamba (Behrouz and Hashemi 2024): tokens of random walks, then a line of all nodes.

        h = conv(x, e)        t_k = mean of h over the nodes on walks of k steps from a node, t_0 = h
        x ← norm(x + last(mixer(t_K, …, t_1, t_0)))        x ← norm(x + sorted_mixer(x))

    Both mixers are bidirectional; the first reads, for each node, from the widest neighbourhood to the node itself.

    Args:
        config: configuration of the model.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.conv = gated_conv(config)
        self.token_mixer = line_mixer(config, two_way=True)
        self.node_mixer = SortedMamba(config, two_way=True, draws=1)
        self.token_norm, self.node_norm = BatchNorm(config.hidden_size), BatchNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        tokens = self._tokens(self.conv(x, structure.edge_index, edge), structure)
        local = self.token_mixer(tokens, UndirectedLine(STEPS + 1))[:, -1]
        x = self.token_norm(x + self.dropout(local))
        return self.node_norm(x + self.dropout(self.node_mixer(x, edge, structure))), edge

    def _tokens(self, h: Tensor, structure: GraphStructure) -> Tensor:
        """Tokens of each node, the widest first, ``[T, STEPS + 1, hidden_size]``."""
        draws = Places.of(structure).draw(WALKS * STEPS, self.training).view(-1, STEPS)
        start = torch.arange(len(h), device=h.device).repeat_interleave(WALKS)
        visited = random_walks(structure.pyg_topology.topology, start, draws).nodes
        by_step = h[visited].unflatten(0, (len(h), WALKS)).mean(1)
        count = torch.arange(1, STEPS + 2, device=h.device).unsqueeze(1)
        return (by_step.cumsum(1) / count).flip(1)
