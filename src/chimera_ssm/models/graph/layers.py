"""Layers of graph models: a local layer, Chimera, and a feed-forward network."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GatedGCN, GCNPlus, GraphStructure, pyg_conv
from chimera_ssm.models.graph.norms import BatchNorm, norm_of, normalized
from chimera_ssm.models.mixers import register_mixer
from chimera_ssm.nn import Chimera, OnDAG, OnGraph
from chimera_ssm.ops import Neumann


class ChimeraGraphLayer(GradientCheckpointingLayer):
    """A local layer, Chimera and a feed-forward network, each with a norm before it and a residual connection.

        sequential:  x ← local(x)        x ← x + chimera(norm(x))
        parallel:    x ← local(x) + chimera(norm(x))
        then:        x ← x + mlp(norm(x)), unless mlp_ratio is 0

    local(x) is a `LocalLayer`, or for ``"gcn_plus"`` a `ConvLayer` without residual connection.

    Args:
        config: configuration of the model.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        width, self.sequential = config.hidden_size, config.arrangement == "sequential"
        self.local = _local_layer(config)
        self.mixer_norm = norm_of(config)
        self.mixer = _mixer(config)
        self.dropout = nn.Dropout(config.dropout)
        self.mlp_norm = self.mlp = None
        if inner := config.mlp_ratio * width:
            self.mlp_norm = norm_of(config)
            self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), self.dropout, nn.Linear(inner, width))

    def freeze_unused(self) -> None:
        """In the last layer: freeze parameters without gradient, because DDP waits for the gradient of all others.

        Nothing reads the edge features that the local layer updates, unless Chimera follows it.
        """
        conv = getattr(self.local, "conv", None)
        if isinstance(conv, GatedGCN) and conv.norm is not None and not self.sequential:
            conv.norm.requires_grad_(False)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        near, updated = (x, edge) if self.local is None else self.local(x, edge, structure)
        x, edge = (near, updated) if self.sequential else (x, edge)
        features = normalized(self.mixer_norm, x, structure.batch)
        x = near + self.dropout(
            self.mixer(features, structure.pyg_topology.topology, structure.pyg_topology.features(edge))
        )
        if self.mlp is not None and self.mlp_norm is not None:
            x = x + self.dropout(self.mlp(normalized(self.mlp_norm, x, structure.batch)))
        return x, updated


class LocalLayer(nn.Module):
    """A graph convolution with a norm before it and a residual connection.

        sequential:  x + gelu(norm(h + conv(h))), h = norm(x)
        parallel:    x + conv(norm(x))

    Args:
        config: configuration of the model.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        edges, width = config.edge_features is not None, config.hidden_size
        self.norm = norm_of(config)
        self.conv = GatedGCN(config, edges) if config.local == "gated_gcn" else pyg_conv(config.local, width)
        self.reads_edges = config.local != "gcn" and edges
        self.out_norm = norm_of(config) if config.arrangement == "sequential" else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        h = normalized(self.norm, x, structure.batch)
        if isinstance(self.conv, GatedGCN):
            y, edge = self.conv(h, edge, structure)
        else:
            y = self.conv(h, structure.edge_index, *([edge] if self.reads_edges else []))
        if self.out_norm is not None:
            y = F.gelu(normalized(self.out_norm, h + y, structure.batch))
        return x + self.dropout(y), edge


class ConvLayer(GradientCheckpointingLayer):
    """A graph convolution followed by a norm and an activation, ``x + dropout(relu(norm(conv(x))))``.

    Args:
        config: configuration of the model.
        conv: called as ``conv(x, edge_index, edge)``, or as ``conv(x, edge_index)`` if it does not read edge features.
        reads_edges: whether the convolution reads edge features, if there are any.
        residual: whether to add ``x``.
    """

    def __init__(self, config: ChimeraGraphConfig, conv: nn.Module, *, reads_edges: bool = True, residual: bool = True):
        super().__init__()
        self.conv = conv
        self.reads_edges = reads_edges and config.edge_features is not None
        self.residual = residual
        self.norm = BatchNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        y = self.conv(x, structure.edge_index, *([edge] if self.reads_edges else []))
        y = self.dropout(F.relu(self.norm(y)))
        return x + y if self.residual else y, edge


def _local_layer(config: ChimeraGraphConfig) -> nn.Module | None:
    if config.local == "gcn_plus":
        return ConvLayer(config, GCNPlus(config.hidden_size), residual=False)
    return None if config.local == "none" else LocalLayer(config)


def _mixer(config: ChimeraGraphConfig) -> Chimera:
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


register_mixer("graph", "chimera", ChimeraGraphLayer)
