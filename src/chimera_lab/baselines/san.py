"""SAN: attention of all nodes of a graph to all others, with other weights where there is an edge."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_lab.baselines.hybrid import check_heads, feed_forward
from chimera_lab.baselines.node_draws import Places
from chimera_ssm.models import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.models.graph.norms import BatchNorm

#: Weight of pairs without an edge, relative to edges.
GAMMA = 1e-6


class SANLayer(GradientCheckpointingLayer):
    """The layer of SAN (Kreuzer et al. 2021): attention, then a feed-forward network, each with a residual and a norm.

    Args:
        config: configuration of the model.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.attention = FullAttention(config)
        self.attention_norm, self.mlp_norm = BatchNorm(config.hidden_size), BatchNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.mlp = feed_forward(config)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        x = self.attention_norm(x + self.dropout(self.attention(x, edge, structure)))
        return self.mlp_norm(x + self.mlp(x)), edge


class FullAttention(nn.Module):
    """Attention over all pairs of different nodes of a graph; queries and keys of edges and of other pairs differ.

        y_i = Σ_j w_ij v_j / Σ_j w_ij
        w_ij = exp(q_i · (k_j ⊙ r_ij) / √P), r_ij = r + W e_ij,  for an edge j → i
        w_ij = γ exp(q'_i · (k'_j ⊙ r') / √P)                    for other pairs

    with exponents clamped to ±5. The factor 1 / (1 + γ) of the paper cancels.

    Args:
        config: configuration of the model.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → ``[T, hidden_size]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        check_heads(config)
        width, self.heads = config.hidden_size, config.num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.far_query, self.far_key = nn.Linear(width, width), nn.Linear(width, width)
        self.edge = None if config.edge_features is None else nn.Linear(width, width)
        self.relation, self.far_relation = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """Initially r = r' = 1."""
        nn.init.ones_(self.relation)
        nn.init.ones_(self.far_relation)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> Tensor:
        value = self.value(x).unflatten(1, (self.heads, -1))
        near, near_weight = self._near(x, value, edge, structure.edge_index)
        far, far_weight = self._far(x, value, structure)
        weight = near_weight + far_weight
        y = (near + far) / torch.where(weight > 0, weight, 1).unsqueeze(-1)  # a single node has no pairs
        return self.out(y.flatten(1))

    def _near(self, x: Tensor, value: Tensor, edge: Tensor | None, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over edges, of weighted values and of weights, ``[T, H, P]`` and ``[T, H]``."""
        source, target = edge_index
        relation = self.relation if self.edge is None or edge is None else self.relation + self.edge(edge)
        score = (self.query(x)[target] * self.key(x)[source] * relation).unflatten(1, (self.heads, -1)).sum(-1)
        weight = (score * value.shape[-1] ** -0.5).clamp(-5, 5).exp()
        weighted = weight.unsqueeze(-1) * value[source]  # with autocast not of the type of value
        total = weighted.new_zeros(value.shape).index_add(0, target, weighted)
        return total, weight.new_zeros(value.shape[:2]).index_add(0, target, weight)

    def _far(self, x: Tensor, value: Tensor, structure: GraphStructure) -> tuple[Tensor, Tensor]:
        """The same sums over pairs without an edge, on graphs padded to the largest."""
        sizes, graph, place = Places.of(structure)
        number = torch.arange(int(sizes.max()), device=x.device)
        exists = number < sizes.unsqueeze(1)
        far = exists.unsqueeze(1) & exists.unsqueeze(2) & (number != number.unsqueeze(1))
        source, target = structure.edge_index
        far[graph[target], place[target], place[source]] = False

        def padded(features: Tensor) -> Tensor:
            heads = features.view(len(x), self.heads, -1)
            return heads.new_zeros(*exists.shape, *heads.shape[1:]).index_put((graph, place), heads).transpose(1, 2)

        query, key = padded(self.far_query(x) * self.far_relation), padded(self.far_key(x))
        score = (query @ key.mT * value.shape[-1] ** -0.5).clamp(-5, 5)
        weight = GAMMA * score.exp() * far.unsqueeze(1)
        total = (weight @ padded(value)).transpose(1, 2)
        return total[graph, place], weight.sum(-1).mT[graph, place]
