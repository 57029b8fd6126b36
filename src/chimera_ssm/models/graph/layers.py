"""Layers of graph models: Chimera with a local layer beside it, and PyG's layers in its place."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_ssm.errors import missing_extra
from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.nn import Chimera, OnDAG, OnGraph
from chimera_ssm.nn.wiring import Wiring
from chimera_ssm.solvers import Neumann


class Graphs(NamedTuple):
    """What layers know of the graphs of a batch, apart from features."""

    wiring: Wiring
    edge_index: Tensor
    batch: Tensor | None


class ChimeraGraphLayer(GradientCheckpointingLayer):
    """A local layer and Chimera side by side, then a feed-forward network, each behind a norm.

        x ← x + local(norm(x)) + chimera(norm(x))        x ← x + mlp(norm(x))

    Args:
        config: of the model.
        last: nobody reads the edges after the last layer.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig, last: bool = False):
        super().__init__()
        width = config.hidden_size
        edge_dim = None if config.edge_features is None else width
        self.local_norm = norm(config) if config.local != "none" else None
        self.local = _local(config, last)
        self.mixer_norm = norm(config)
        self.mixer = Chimera(
            width, config.num_heads, config.state_size, config.expand, gate=False, edge_dim=edge_dim,
            kind=OnDAG() if config.resolvent == "dag" else OnGraph(config.gamma),
            solver=Neumann(config.terms) if config.resolvent == "neumann" else None,
        )  # fmt: skip
        self.mlp_norm = norm(config)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(config.dropout), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        wiring = graphs.wiring
        heard = self.dropout(self.mixer(self.mixer_norm(x), wiring.topology, wiring.features(edge)))
        if self.local is not None and self.local_norm is not None:
            nearby = self.local(self.local_norm(x), graphs.edge_index, *([edge] if self.local_edges else []))
            if self.local_edges:
                nearby, edge = nearby
            heard = heard + self.dropout(nearby)
        x = x + heard
        return x + self.dropout(self.mlp(self.mlp_norm(x))), edge

    @property
    def local_edges(self) -> bool:
        """Whether the local layer reads and updates edges."""
        return isinstance(self.local, GatedGCN)


class GatedGCN(nn.Module):
    """A graph convolution with a gate for each edge and feature, which also updates the edges.

        ê_ij = A x_i + B x_j + C e_ij        y_i = U x_i + Σ_j σ(ê_ij) ⊙ V x_j / (Σ_j σ(ê_ij) + ε)
        e_ij ← e_ij + relu(norm(ê_ij))

    Args:
        dim: features of nodes and of edges.
        edges: whether there are edge features; C is left out otherwise.
        update: whether to update them.

    Shapes: ``x [T, dim]``, ``edge_index [2, E]``, ``edge [E, dim]`` or ``None`` → ``[T, dim]``, edges as before.
    """

    def __init__(self, dim: int, edges: bool, update: bool = True):
        super().__init__()
        self.node = nn.Linear(dim, 4 * dim)
        self.edge = nn.Linear(dim, dim) if edges else None
        self.norm = nn.LayerNorm(dim) if edges and update else None

    def forward(self, x: Tensor, edge_index: Tensor, edge: Tensor | None) -> tuple[Tensor, Tensor | None]:
        source, target = edge_index
        hears, speaks, own, value = self.node(x).chunk(4, dim=-1)
        opening = hears[target] + speaks[source]
        if self.edge is not None and edge is not None:
            opening = opening + self.edge(edge)
            edge = edge if self.norm is None else edge + F.relu(self.norm(opening))
        gate = torch.sigmoid(opening)
        zero = torch.zeros_like(value)
        heard = zero.index_add(0, target, gate * value[source])
        return own + heard / (zero.index_add(0, target, gate) + 1e-6), edge


class ConvLayer(GradientCheckpointingLayer):
    """One of PyG's convolutions in a residual layer, ``x + dropout(relu(norm(conv(x))))``."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.conv = _conv(config.mixer, config.hidden_size, config.edge_features is not None)
        self.reads_edges = config.mixer != "gcn" and config.edge_features is not None
        self.norm = nn.BatchNorm1d(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        y = self.conv(x, graphs.edge_index, *([edge] if self.reads_edges else []))
        return x + self.dropout(F.relu(self.norm(y))), edge


class GPSLayer(GradientCheckpointingLayer):
    """PyG's `GPSConv`: GatedGCN and attention within each graph side by side, then a feed-forward network."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.reads_edges = config.edge_features is not None
        conv = _conv("gated_gcn", config.hidden_size, self.reads_edges)
        self.conv = _pyg().GPSConv(config.hidden_size, conv, heads=config.num_heads, dropout=config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, graphs: Graphs) -> tuple[Tensor, Tensor | None]:
        options = {"edge_attr": edge} if self.reads_edges else {}
        return self.conv(x, graphs.edge_index, graphs.batch, **options), edge


def graph_layer(config: ChimeraGraphConfig, depth: int) -> nn.Module:
    """A layer of the model, called as ``layer(x, edge, graphs)``."""
    if config.mixer == "chimera":
        return ChimeraGraphLayer(config, last=depth == config.num_hidden_layers - 1)
    return GPSLayer(config) if config.mixer == "gps" else ConvLayer(config)


def norm(config: ChimeraGraphConfig) -> nn.Module:
    """The norm of features ``[T, hidden_size]`` that a model is built with."""
    return (nn.BatchNorm1d if config.norm == "batch" else nn.LayerNorm)(config.hidden_size)


def _local(config: ChimeraGraphConfig, last: bool) -> nn.Module | None:
    if config.local == "gated_gcn":
        return GatedGCN(config.hidden_size, edges=config.edge_features is not None, update=not last)
    return _conv("gcn", config.hidden_size, edges=False) if config.local == "gcn" else None


def _conv(name: str, width: int, edges: bool) -> nn.Module:
    pyg = _pyg()
    if name == "gcn":
        return pyg.GCNConv(width, width)
    if name == "gine":
        return pyg.GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
    return pyg.ResGatedGraphConv(width, width, edge_dim=width if edges else None)


def _pyg() -> Any:
    """PyG's layers, which only models that use them need."""
    try:
        import torch_geometric.nn
    except ModuleNotFoundError as error:
        if (remedy := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(f"this graph model cannot be built: {remedy}", name=error.name) from None
    return torch_geometric.nn
