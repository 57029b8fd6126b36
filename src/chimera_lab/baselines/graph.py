"""Baseline graph networks, whole layers in place of Chimera's, and their published sizes as presets."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_lab.baselines.hybrid import HybridLayer, check_heads, gated_conv, gine_layer
from chimera_lab.baselines.neural_walker import VirtualNodeLayer, WalkLayer
from chimera_lab.baselines.san import SANLayer
from chimera_lab.baselines.sorted_nodes import GraphMambaLayer, SortedMamba
from chimera_lab.baselines.sparse_attention import BigBirdAttention, ExphormerAttention
from chimera_ssm.models import ChimeraForGraphs, ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GCNPlus, GraphStructure, pyg_conv, pyg_nn
from chimera_ssm.models.graph.layers import ChimeraGraphLayer, ConvLayer
from chimera_ssm.models.graph.presets import PRESETS
from chimera_ssm.models.mixers import register_mixer
from chimera_ssm.models.registry import register_presets

#: Published sizes on Peptides-func, reduced to under 500,000 parameters; chosen here for BigBird and Graph Mamba.
PUBLISHED: dict[str, dict[str, Any]] = {
    "san": {"num_hidden_layers": 4, "hidden_size": 84, "num_heads": 4, "eigenvectors": 10},
    "exphormer": {
        "num_hidden_layers": 8, "hidden_size": 60, "num_heads": 4, "dropout": 0.12, "expander_degree": 0,
        "eigenvectors": 10,
    },
    "bigbird": {"num_hidden_layers": 4, "hidden_size": 84, "num_heads": 4},
    "graph_mamba": {"num_hidden_layers": 3, "hidden_size": 96, "state_size": 16},
    "gmn": {"num_hidden_layers": 4, "hidden_size": 84, "state_size": 16},
    "neural_walker": {"num_hidden_layers": 6, "hidden_size": 56, "state_size": 16},
    "neural_walker_chimera": {"num_hidden_layers": 6, "hidden_size": 56, "state_size": 16},
}  # fmt: skip


class GPSLayer(GradientCheckpointingLayer):
    """PyG's `GPSConv`: the sum of GatedGCN and attention within each graph, then a feed-forward network."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        check_heads(config)
        self.reads_edges = config.edge_features is not None
        conv = gated_conv(config)
        self.conv = pyg_nn().GPSConv(config.hidden_size, conv, heads=config.num_heads, dropout=config.dropout)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        options = {"edge_attr": edge} if self.reads_edges else {}
        return self.conv(x, structure.edge_index, structure.batch, **options), edge


def _gcn(config: ChimeraGraphConfig) -> nn.Module:
    return ConvLayer(config, pyg_conv("gcn", config.hidden_size), reads_edges=False)


def _gcn_plus(config: ChimeraGraphConfig) -> nn.Module:
    return ConvLayer(config, GCNPlus(config.hidden_size), residual=False)


def _gated_gcn(config: ChimeraGraphConfig) -> nn.Module:
    return ConvLayer(config, gated_conv(config))


register_mixer("graph", "gcn", _gcn)
register_mixer("graph", "gcn_plus", _gcn_plus)
register_mixer("graph", "gine", gine_layer)
register_mixer("graph", "gated_gcn", _gated_gcn)
register_mixer("graph", "gps", GPSLayer)
register_mixer("graph", "san", SANLayer)
register_mixer("graph", "exphormer", lambda config: HybridLayer(config, ExphormerAttention(config)))
register_mixer("graph", "bigbird", lambda config: HybridLayer(config, BigBirdAttention(config)))
register_mixer("graph", "graph_mamba", lambda config: HybridLayer(config, SortedMamba(config)))
register_mixer("graph", "gmn", GraphMambaLayer)
register_mixer("graph", "neural_walker", lambda config: WalkLayer(config, VirtualNodeLayer(config)))
register_mixer("graph", "neural_walker_chimera", lambda config: WalkLayer(config, ChimeraGraphLayer(config)))
register_presets(
    ChimeraForGraphs,
    {
        f"{mixer}_peptides_func": {
            **PRESETS["chimera_graph_peptides_func"],
            "mixer": mixer,
            "position_features": sizes.get("eigenvectors", 0),
            **sizes,
        }
        for mixer, sizes in PUBLISHED.items()
    },
)
