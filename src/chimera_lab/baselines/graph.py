"""Baseline graph networks: layers of PyG, and GCN+, in place of Chimera's layers."""

from __future__ import annotations

from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_ssm.models import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GCNPlus, GraphStructure, pyg_conv, pyg_nn
from chimera_ssm.models.graph.layers import ConvLayer
from chimera_ssm.models.mixers import register_mixer


class GPSLayer(GradientCheckpointingLayer):
    """PyG's `GPSConv`: the sum of GatedGCN and attention within each graph, then a feed-forward network."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        if config.hidden_size % config.num_heads:
            raise ValueError(
                "hidden_size must be divisible by num_heads for the attention of gps, "
                f"found {config.hidden_size} features and {config.num_heads} heads"
            )
        self.reads_edges = config.edge_features is not None
        conv = _gated_conv(config)
        self.conv = pyg_nn().GPSConv(config.hidden_size, conv, heads=config.num_heads, dropout=config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        options = {"edge_attr": edge} if self.reads_edges else {}
        return self.conv(x, structure.edge_index, structure.batch, **options), edge


def _gated_conv(config: ChimeraGraphConfig) -> nn.Module:
    width, edges = config.hidden_size, config.edge_features is not None
    return pyg_nn().ResGatedGraphConv(width, width, edge_dim=width if edges else None)


def _gcn(config: ChimeraGraphConfig) -> nn.Module:
    return ConvLayer(config, pyg_conv("gcn", config.hidden_size), reads_edges=False)


def _gcn_plus(config: ChimeraGraphConfig) -> nn.Module:
    return ConvLayer(config, GCNPlus(config.hidden_size), residual=False)


def _gine(config: ChimeraGraphConfig) -> nn.Module:
    """GINE, and GIN where there are no edge features."""
    conv = pyg_conv("gine", config.hidden_size)
    return ConvLayer(config, conv if config.edge_features is not None else pyg_nn().GINConv(conv.nn))


def _gated_gcn(config: ChimeraGraphConfig) -> nn.Module:
    return ConvLayer(config, _gated_conv(config))


register_mixer("graph", "gcn", _gcn)
register_mixer("graph", "gcn_plus", _gcn_plus)
register_mixer("graph", "gine", _gine)
register_mixer("graph", "gated_gcn", _gated_gcn)
register_mixer("graph", "gps", GPSLayer)
