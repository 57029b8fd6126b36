"""Attention over some pairs of nodes: Exphormer and BigBird."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chimera_lab.baselines.hybrid import check_heads
from chimera_lab.baselines.node_draws import Places
from chimera_ssm.models import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GraphStructure

#: BigBird: nodes in a block, and random blocks that each block attends to.
BLOCK, RANDOM = 3, 3


def attend(score: Tensor, value: Tensor, pairs: Tensor, targets: int) -> Tensor:
    """Attention of each target to the sources that it is paired with; zero for a target without a source.

        y_i = Σ_j exp(s_ij) v_j / Σ_j exp(s_ij)

    Args:
        score: s of each pair and head, ``[pairs, H]``.
        value: v of each source, ``[sources, H, P]``.
        pairs: source and target of each pair, ``[2, pairs]``.
        targets: number of targets.

    Returns:
        ``[targets, H · P]``.
    """
    source, target = pairs
    index = target.unsqueeze(1).expand_as(score)
    highest = score.new_zeros(targets, score.shape[1]).scatter_reduce(
        0, index, score.detach(), "amax", include_self=False
    )
    weight = (score - highest[target]).exp()
    total = weight.new_zeros(highest.shape).index_add(0, target, weight)
    weighted = (weight / total[target]).unsqueeze(-1) * value[source]
    return weighted.new_zeros(targets, *value.shape[1:]).index_add(0, target, weighted).flatten(1)


class ExphormerAttention(nn.Module):
    """Attention along edges, along those of a random regular graph, and with a virtual node (Shirzad et al. 2023).

        s_ij = clamp(q_i · (k_j ⊙ r_ij) / √P, −5, 5)        r_ij = W e_ij + r_kind(ij)

    The virtual node first attends to all nodes of its graph; then every node attends to its in-neighbours, to those in
    the random graph, and to the virtual node. The random graph is a union of ``expander_degree / 2`` cycles through all
    nodes of a graph, in random order and in both directions.

    Args:
        config: configuration of the model.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → ``[T, hidden_size]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        check_heads(config)
        width = config.hidden_size
        self.heads, self.cycles = config.num_heads, config.expander_degree // 2
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.edge = None if config.edge_features is None else nn.Linear(width, width)
        self.kinds = nn.Parameter(torch.empty(4 if self.cycles else 3, width))
        self.virtual = nn.Parameter(torch.empty(width))
        self.reset_own_parameters()

    def reset_own_parameters(self) -> None:
        """r_kind = 1, so that attention starts as usual; the virtual node as an embedded node."""
        nn.init.ones_(self.kinds)
        nn.init.normal_(self.virtual)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> Tensor:
        places, nodes = Places.of(structure), torch.arange(len(x), device=x.device)
        virtual = self.virtual.expand(len(places.sizes), -1)
        from_nodes, near, from_virtual, *random = self.kinds
        inward = torch.stack([nodes, places.graph])
        virtual = virtual + self._attend(x, virtual, inward, from_nodes.expand_as(x))
        pairs = [structure.edge_index, torch.stack([len(x) + places.graph, nodes])]
        relations = [near.expand(structure.edge_index.shape[1], -1), from_virtual.expand_as(x)]
        if self.edge is not None and edge is not None:
            relations[0] = relations[0] + self.edge(edge)
        if random:
            pairs.append(random_cycles(places, self.cycles, self.training))
            relations.append(random[0].expand(pairs[-1].shape[1], -1))
        return self.out(self._attend(torch.cat([x, virtual]), x, torch.cat(pairs, dim=1), torch.cat(relations)))

    def _attend(self, sources: Tensor, targets: Tensor, pairs: Tensor, relation: Tensor) -> Tensor:
        q = self.query(targets)[pairs[1]]
        k = self.key(sources)[pairs[0]]
        score = (q * k * relation).unflatten(1, (self.heads, -1)).sum(-1) * (q.shape[1] / self.heads) ** -0.5
        return attend(score.clamp(-5, 5), self.value(sources).unflatten(1, (self.heads, -1)), pairs, len(targets))


def random_cycles(places: Places, cycles: int, training: bool) -> Tensor:
    """Edges of random cycles through all nodes of each graph, in both directions, ``[2, 2 · cycles · T]``."""
    draws = places.draw(cycles, training)
    following = torch.where(places.place + 1 < places.sizes[places.graph], places.place + 1, 0)
    following = following + places.first[places.graph]
    edges = [torch.stack([order, order[following]]) for order in map(places.sort, draws.unbind(1))]
    return torch.cat([*edges, *(edge.flip(0) for edge in edges)], dim=1)


class BigBirdAttention(nn.Module):
    """Attention between blocks of three nodes, in the order of the data (Zaheer et al. 2020).

    Every block attends to itself, the blocks before and after it, the first, the last and three random ones; the first
    and the last block attend to all, and all attend to them.

    Args:
        config: configuration of the model.

    Shapes: ``x [T, hidden_size]`` → ``[T, hidden_size]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        check_heads(config)
        self.heads = config.num_heads
        self.projection = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> Tensor:
        pairs = block_pairs(Places.of(structure), self.training)
        q, k, v = self.projection(x).unflatten(1, (3, self.heads, -1)).unbind(1)
        score = (q[pairs[1]] * k[pairs[0]]).sum(-1) * q.shape[-1] ** -0.5
        return self.out(attend(score, v, pairs, len(x)))


def block_pairs(places: Places, training: bool) -> Tensor:
    """The pairs of nodes in BigBird's pairs of blocks, ``[2, pairs]``, sources in row 0."""
    blocks = (places.sizes + BLOCK - 1) // BLOCK
    number = torch.arange(int(blocks.max()), device=blocks.device)
    ends = (number == 0) | (number == blocks.unsqueeze(1) - 1)
    paired = ends.unsqueeze(1) | ends.unsqueeze(2) | ((number - number.unsqueeze(1)).abs() <= 1)
    begins = (places.place % BLOCK == 0).nonzero().squeeze(1)
    graph = places.graph[begins]
    chosen = (places.draw(RANDOM, training)[begins] * blocks[graph].unsqueeze(1)).long()
    paired[graph.unsqueeze(1), (places.place[begins] // BLOCK).unsqueeze(1), chosen] = True
    exists = number < blocks.unsqueeze(1)
    graph, target, source = (paired & exists.unsqueeze(1) & exists.unsqueeze(2)).nonzero(as_tuple=True)
    within = torch.arange(BLOCK, device=blocks.device)
    target, source = torch.broadcast_tensors(
        BLOCK * target.view(-1, 1, 1) + within.unsqueeze(1), BLOCK * source.view(-1, 1, 1) + within
    )
    size, first = (n[graph].view(-1, 1, 1) for n in (places.sizes, places.first))
    inside = (target < size) & (source < size)
    return torch.stack([(first + source)[inside], (first + target)[inside]])
