"""Layers of graph models: a local layer, Chimera and a feed-forward network, or PyG's layers in their place."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_ssm.errors import missing_extra
from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.norms import BatchNorm, norm_of, normalized
from chimera_ssm.nn import Chimera, OnDAG, OnGraph
from chimera_ssm.ops import Neumann
from chimera_ssm.topology.from_edge_index import PyGTopology


class Graphs(NamedTuple):
    """What layers know of the graphs of a batch, apart from features.

    Attributes:
        wiring: their topology.
        edge_index: source and target of each edge, ``[2, E]``.
        batch: graph of each node, ``[T]``; ``None`` for one graph.
    """

    wiring: PyGTopology
    edge_index: Tensor
    batch: Tensor | None

    @property
    def edge_batch(self) -> Tensor | None:
        """Graph of each edge, ``[E]``."""
        return None if self.batch is None else self.batch[self.edge_index[0]]


class ChimeraGraphLayer(GradientCheckpointingLayer):
    """A local layer, Chimera and a feed-forward network, each behind a norm and beside a residual connection.

        sequential:  x ← local(x)        x ← x + chimera(norm(x))
        parallel:    x ← local(x) + chimera(norm(x))
        then:        x ← x + mlp(norm(x)), unless mlp_ratio is 0

    local(x) is a `LocalLayer`, or for ``"gcn_plus"`` a `ConvLayer`, which has no residual connection.

    Args:
        config: of the model.
        last: whether this is the last layer, after which edge features are not used.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig, last: bool = False):
        super().__init__()
        width, self.sequential = config.hidden_size, config.arrangement == "sequential"
        self.local = local_layer(config, unused_edges=last and not self.sequential)
        self.mixer_norm = norm_of(config)
        self.mixer = mixer_of(config)
        self.dropout = nn.Dropout(config.dropout)
        self.mlp_norm = self.mlp = None
        if inner := config.mlp_ratio * width:
            self.mlp_norm = norm_of(config)
            self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), self.dropout, nn.Linear(inner, width))

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        near, updated = (x, edge) if self.local is None else self.local(x, edge, graphs)
        x, edge = (near, updated) if self.sequential else (x, edge)
        features = normalized(self.mixer_norm, x, graphs.batch)
        x = near + self.dropout(self.mixer(features, graphs.wiring.topology, graphs.wiring.features(edge)))
        if self.mlp is not None and self.mlp_norm is not None:
            x = x + self.dropout(self.mlp(normalized(self.mlp_norm, x, graphs.batch)))
        return x, updated


def mixer_of(config: ChimeraGraphConfig) -> Chimera:
    """The mixer that a configuration describes."""
    kind = (
        OnDAG(num_roots=config.dag_roots, injection=config.injection)
        if config.resolvent == "dag"
        else OnGraph(
            config.gamma, normalize=config.normalize, shared_bias=config.shared_bias, injection=config.injection
        )
    )
    return Chimera(
        config.hidden_size,
        config.num_heads,
        config.state_size,
        config.expand,
        gate=config.gate,
        edge_dim=None if config.edge_features is None else config.hidden_size,
        kind=kind,
        conv=config.conv,
        resolvent="identity" if config.resolvent == "identity" else "exact",
        init=config.init,
        solver=Neumann(config.terms, squared=config.squared) if config.resolvent == "neumann" else None,
        dt_min=config.dt_min,
        dt_max=config.dt_max,
    )


def local_layer(config: ChimeraGraphConfig, unused_edges: bool) -> nn.Module | None:
    """The local layer that a configuration describes, called as ``layer(x, edge, graphs)``."""
    if config.local == "gcn_plus":
        return ConvLayer(config, "gcn_plus")
    return None if config.local == "none" else LocalLayer(config, unused_edges)


class LocalLayer(nn.Module):
    """A convolution over neighbours behind a norm, beside a residual connection.

        sequential:  x + gelu(norm(h + conv(h))), h = norm(x)
        parallel:    x + conv(norm(x))

    Args:
        config: of the model.
        unused_edges: whether nothing reads the edge features that it updates.
    """

    def __init__(self, config: ChimeraGraphConfig, unused_edges: bool = False):
        super().__init__()
        edges = config.edge_features is not None
        self.norm = norm_of(config)
        self.conv = GatedGCN(config, edges) if config.local == "gated_gcn" else conv_of(config.local, config)
        self.reads_edges = config.local != "gcn" and edges
        self.out_norm = norm_of(config) if config.arrangement == "sequential" else None
        self.dropout = nn.Dropout(config.dropout)
        if unused_edges and isinstance(self.conv, GatedGCN) and self.conv.norm is not None:
            self.conv.norm.requires_grad_(False)  # DDP waits for the gradient of every trainable parameter

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        h = normalized(self.norm, x, graphs.batch)
        if isinstance(self.conv, GatedGCN):
            y, edge = self.conv(h, edge, graphs)
        else:
            y = self.conv(h, graphs.edge_index, *([edge] if self.reads_edges else []))
        if self.out_norm is not None:
            y = F.gelu(normalized(self.out_norm, h + y, graphs.batch))
        return x + self.dropout(y), edge


class GatedGCN(nn.Module):
    """A graph convolution with a gate for each edge and feature, which also updates the edges (Bresson and Laurent).

        ê_ij = A x_i + B x_j + C e_ij        y_i = U x_i + Σ_j σ(ê_ij) ⊙ V x_j / (Σ_j σ(ê_ij) + ε)
        e_ij ← e_ij + relu(norm(ê_ij))

    With ``edge_messages`` the messages are V x_j + C e_ij, so that edge features reach the nodes at once.

    Args:
        config: of the model.
        edges: whether there are edge features; C is left out otherwise.

    Shapes: ``x [T, dim]``, ``edge [E, dim]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig, edges: bool):
        super().__init__()
        dim, self.edge_messages = config.hidden_size, config.edge_messages
        self.node = nn.Linear(dim, 4 * dim)
        self.edge = nn.Linear(dim, dim) if edges else None
        self.norm = norm_of(config) if edges else None

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        source, target = graphs.edge_index
        at_target, at_source, own, value = self.node(x).chunk(4, dim=-1)
        opening, message = at_target[target] + at_source[source], value[source]
        if self.edge is not None and self.norm is not None and edge is not None:
            projected = self.edge(edge)
            opening = opening + projected
            message = message + projected if self.edge_messages else message
            edge = edge + F.relu(normalized(self.norm, opening, graphs.edge_batch))
        gate = torch.sigmoid(opening)
        zero = torch.zeros_like(value)
        incoming = zero.index_add(0, target, gate * message)
        return own + incoming / (zero.index_add(0, target, gate) + 1e-6), edge


class GCNPlus(nn.Module):
    """The convolution of GCN+ (Luo, Shi and Wu 2025): edge features inside, no self term, no degree normalisation.

        y_i = Σ_{j→i} relu(W x_j + e_ij)

    Args:
        dim: features of nodes and of edges.

    Shapes: ``x [T, dim]``, ``edge_index [2, E]``, ``edge [E, dim]`` or ``None`` → ``[T, dim]``.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x: Tensor, edge_index: Tensor, edge: Tensor | None = None) -> Tensor:
        source, target = edge_index
        message = self.linear(x)[source]
        message = F.relu(message if edge is None else message + edge)
        return torch.zeros_like(x).index_add(0, target, message)


class ConvLayer(GradientCheckpointingLayer):
    """A convolution in a layer of its own, ``x + dropout(relu(norm(conv(x))))``; GCN+ has no residual connection."""

    def __init__(self, config: ChimeraGraphConfig, name: str):
        super().__init__()
        self.conv = conv_of(name, config)
        self.reads_edges = name != "gcn" and config.edge_features is not None
        self.residual = name != "gcn_plus"
        self.norm = BatchNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        y = self.conv(x, graphs.edge_index, *([edge] if self.reads_edges else []))
        y = self.dropout(F.relu(self.norm(y)))
        return x + y if self.residual else y, edge


class GPSLayer(GradientCheckpointingLayer):
    """PyG's `GPSConv`: GatedGCN and attention within each graph side by side, then a feed-forward network."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.reads_edges = config.edge_features is not None
        conv = conv_of("gated_gcn", config)
        self.conv = _pyg().GPSConv(config.hidden_size, conv, heads=config.num_heads, dropout=config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        options = {"edge_attr": edge} if self.reads_edges else {}
        return self.conv(x, graphs.edge_index, graphs.batch, **options), edge


def graph_layer(config: ChimeraGraphConfig, depth: int) -> nn.Module:
    """A layer of the model, called as ``layer(x, edge, graphs)``."""
    if config.mixer == "chimera":
        return ChimeraGraphLayer(config, last=depth == config.num_hidden_layers - 1)
    return GPSLayer(config) if config.mixer == "gps" else ConvLayer(config, config.mixer)


def conv_of(name: str, config: ChimeraGraphConfig) -> nn.Module:
    """A convolution by name, called as ``conv(x, edge_index)`` or ``conv(x, edge_index, edge)``; PyG's but for GCN+."""
    width, edges = config.hidden_size, config.edge_features is not None
    if name == "gcn_plus":
        return GCNPlus(width)
    if name == "gcn":
        return _pyg().GCNConv(width, width)
    if name == "gine":
        return _pyg().GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
    return _pyg().ResGatedGraphConv(width, width, edge_dim=width if edges else None)


def _pyg() -> Any:
    """PyG's layers, which only models that use them need."""
    try:
        import torch_geometric.nn
    except ModuleNotFoundError as error:
        if (remedy := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(f"this graph model cannot be built: {remedy}", name=error.name) from None
    return torch_geometric.nn
