"""Parts of graph baselines: message passing beside a global mixer, as in GraphGPS, and convolutions of PyG."""

from __future__ import annotations

from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from chimera_ssm.models import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GraphStructure, pyg_conv, pyg_nn
from chimera_ssm.models.graph.layers import ConvLayer
from chimera_ssm.models.graph.norms import BatchNorm


class HybridLayer(GradientCheckpointingLayer):
    """GatedGCN beside a mixer of all nodes of a graph, then a feed-forward network (Rampášek et al. 2022).

        y = norm(x + conv(x, e)) + norm(x + mixer(x, e))        out = norm(y + mlp(y))

    Args:
        config: configuration of the model.
        mixer: called as ``mixer(x, edge, structure)``.

    Shapes: ``x [T, hidden_size]``, ``edge [E, hidden_size]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig, mixer: nn.Module):
        super().__init__()
        width = config.hidden_size
        self.conv = gated_conv(config)
        self.mixer = mixer
        self.conv_norm, self.mixer_norm, self.mlp_norm = (BatchNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)
        self.mlp = feed_forward(config)

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        near = self.conv(x, structure.edge_index, edge)
        far = self.mixer(x, edge, structure)
        y = self.conv_norm(x + self.dropout(near)) + self.mixer_norm(x + self.dropout(far))
        return self.mlp_norm(y + self.mlp(y)), edge


def gated_conv(config: ChimeraGraphConfig) -> nn.Module:
    """PyG's GatedGCN, called as ``conv(x, edge_index, edge)``; it does not update edges."""
    width, edges = config.hidden_size, config.edge_features is not None
    return pyg_nn().ResGatedGraphConv(width, width, edge_dim=width if edges else None)


def gine_layer(config: ChimeraGraphConfig) -> ConvLayer:
    """GINE, and GIN where there are no edge features."""
    conv = pyg_conv("gine", config.hidden_size)
    return ConvLayer(config, conv if config.edge_features is not None else pyg_nn().GINConv(conv.nn))


def feed_forward(config: ChimeraGraphConfig) -> nn.Sequential:
    """Two linear layers with twice the width between them."""
    width, dropout = config.hidden_size, nn.Dropout(config.dropout)
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), dropout, nn.Linear(2 * width, width), dropout)


def check_heads(config: ChimeraGraphConfig) -> None:
    """Raise a ValueError unless the features are divisible by the heads of attention."""
    if config.hidden_size % config.num_heads:
        raise ValueError(
            f"hidden_size must be divisible by num_heads for the attention of {config.mixer}, "
            f"found {config.hidden_size} features and {config.num_heads} heads"
        )
