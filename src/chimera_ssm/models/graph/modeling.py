"""Graph models: encoders of nodes and edges, layers, and a head for graphs or for nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers.utils import ModelOutput, can_return_tuple

from chimera_ssm.models.base import ChimeraPreTrainedModel, reset_own_parameters
from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.convolutions import GraphStructure
from chimera_ssm.models.graph.encoders import FeatureEncoder, PositionEncoder, SummedEmbedding
from chimera_ssm.models.graph.heads import Head, absolute_error, binary_cross_entropy, pool, weighted_cross_entropy
from chimera_ssm.models.graph.layers import ChimeraGraphLayer
from chimera_ssm.models.graph.norms import norm_of, normalized
from chimera_ssm.models.mixers import build_mixer
from chimera_ssm.topology.from_edge_index import PyGTopology, from_edge_index


@dataclass
class GraphOutput(ModelOutput):
    """The output of a graph model.

    Attributes:
        loss: if labels were given.
        logits: ``[graphs, num_labels]`` or ``[nodes, num_labels]``; the predictions in a regression.
        last_hidden_state: features of the nodes, ``[nodes, hidden_size]``.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    last_hidden_state: Tensor | None = None


class ChimeraGraphPreTrainedModel(ChimeraPreTrainedModel):
    """The base class of graph models."""

    config_class = ChimeraGraphConfig
    main_input_name = "x"

    def _initialize(self, module: nn.Module) -> None:
        """Embeddings normal, with the configured standard deviation of their sum; other modules reset themselves."""
        if isinstance(module, SummedEmbedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range / module.count**0.5)
        elif reset_own_parameters(module):
            pass
        elif isinstance(module, nn.MultiheadAttention):
            module._reset_parameters()
        elif isinstance(module, (nn.Linear, nn.LayerNorm, nn.BatchNorm1d)):
            module.reset_parameters()
        elif type(module).__module__ == "torch_geometric.nn.dense.linear":  # not a subclass of nn.Linear
            module.reset_parameters()  # ty: ignore[call-non-callable]
        elif type(module).__module__.startswith("torch_geometric.nn.conv"):
            for parameter in module.parameters(recurse=False):
                nn.init.zeros_(parameter)  # biases; all other parameters belong to linear layers


class ChimeraGraphModel(ChimeraGraphPreTrainedModel):
    """Features of the nodes of a batch of graphs: encoders, layers, and an optional norm."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__(config)
        width = config.hidden_size
        self.node_encoder = FeatureEncoder(config.node_features, width)
        self.edge_encoder = None if config.edge_features is None else FeatureEncoder(config.edge_features, width)
        self.position_encoder = PositionEncoder(config) if config.position_features else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(build_mixer("graph", config) for _ in range(config.num_hidden_layers))
        for module in self.layers[-1].modules():
            if isinstance(module, ChimeraGraphLayer):
                module.freeze_unused()
        self._no_split_modules = {type(layer).__name__ for layer in self.layers}
        self.norm = norm_of(config) if config.final_norm else None
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        x: Any,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        positions: Tensor | None = None,
        pyg_topology: PyGTopology | None = None,
        **kwargs: Any,
    ) -> GraphOutput:
        """Features of the nodes; arguments as for `ChimeraForGraphs`."""
        x, edge_index, edge_attr, batch, positions = read_inputs(
            self.config, x, edge_index, edge_attr, batch, positions
        )
        self._check(x, edge_index, edge_attr, positions)
        edge = None if self.edge_encoder is None else self.edge_encoder(edge_attr, self.dtype)
        h = self.node_encoder(x, self.dtype)
        if self.position_encoder is not None:
            h = h + self.position_encoder(positions, batch, self.dtype)
        pyg_topology = from_edge_index(edge_index, x.shape[0], batch) if pyg_topology is None else pyg_topology
        structure = GraphStructure(pyg_topology, edge_index, batch)
        h = self.dropout(h)
        for layer in self.layers:
            h, edge = layer(h, edge, structure)
        return GraphOutput(last_hidden_state=h if self.norm is None else normalized(self.norm, h, batch))

    def _check(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, positions: Tensor | None) -> None:
        if x.shape[0] == 0:
            raise ValueError("there are no nodes: x has no rows")
        if (edge_attr is None) != (self.edge_encoder is None) and self.edge_encoder is not None:
            raise ValueError("this model needs edge_attr, features of edges; found none")
        if edge_attr is not None and edge_attr.shape[0] != edge_index.shape[1]:
            raise ValueError(
                f"edge_attr must have a row for each of the {edge_index.shape[1]} edges, found {len(edge_attr)}"
            )
        if (positions is None) != (self.position_encoder is None):
            raise ValueError(
                f"positions are required by a model with position_features, and not accepted by others; found "
                f"position_features={self.config.position_features} and "
                f"{'no positions' if positions is None else 'positions'}"
            )
        if positions is not None and positions.shape != (x.shape[0], self.config.position_features):
            raise ValueError(
                f"positions must have shape [{len(x)}, {self.config.position_features}], a row for each node, "
                f"found {list(positions.shape)}"
            )


class ChimeraForGraphs(ChimeraGraphPreTrainedModel):
    """Predictions for graphs, from the pooled features of their nodes, or for nodes.

    Called like PyG's models, ``model(x, edge_index, edge_attr, batch)``, or with a ``Data`` or ``Batch`` of PyG.

    Shapes: ``x [T, features]``, ``edge_index [2, E]``, ``edge_attr [E, features]``, ``batch [T]``, ascending →
    ``logits [B, num_labels]``, or ``[T, num_labels]`` for nodes.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__(config)
        self.chimera = ChimeraGraphModel(config)
        self.head = Head(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        x: Any,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        labels: Tensor | None = None,
        positions: Tensor | None = None,
        pyg_topology: PyGTopology | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> GraphOutput:
        """Predictions, and the loss if labels are given.

        Args:
            x: features of the nodes; or a ``Data`` or ``Batch`` with all arguments up to ``batch``, and ``positions``.
                Explicitly passed arguments take precedence over its fields.
            edge_index: row 0 the source and row 1 the target of each edge.
            edge_attr: features of the edges.
            batch: index of each node's graph; one graph if omitted.
            labels: classes; for a regression and for several labels, an array like the predictions, NaN where unknown.
            positions: ``[T, position_features]``.
            pyg_topology: the topology of ``edge_index`` and ``batch``, if it is already known.
            batch_size: number of graphs; inferred from ``batch`` if omitted.
            kwargs: ``return_dict``.
        """
        if batch is None and batch_size is None:
            batch_size = getattr(x, "num_graphs", None)
        x, edge_index, edge_attr, batch, positions = read_inputs(
            self.config, x, edge_index, edge_attr, batch, positions
        )
        nodes = self.chimera(
            x, edge_index, edge_attr, batch, positions, pyg_topology, return_dict=True
        ).last_hidden_state
        features = pool(nodes, batch, batch_size, self.config.pooling) if self.config.level == "graph" else nodes
        logits = self.head(features)
        if self.config.label_std is not None:
            logits = logits * logits.new_tensor(self.config.label_std)
        if self.config.label_mean is not None:
            logits = logits + logits.new_tensor(self.config.label_mean)
        loss = None if labels is None else self.loss_of(logits, labels)
        return GraphOutput(loss=loss, logits=logits, last_hidden_state=nodes)

    def loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of predictions; that of a regression is in units of ``label_std``."""
        if self.config.problem_type == "multi_label_classification":
            return binary_cross_entropy(logits, labels)
        if self.config.problem_type == "single_label_classification":
            return weighted_cross_entropy(logits, labels)
        scale = 1.0 if self.config.label_std is None else logits.new_tensor(self.config.label_std)
        return absolute_error(logits, labels, scale)


def read_inputs(
    config: Any,
    x: Any,
    edge_index: Tensor | None,
    edge_attr: Tensor | None,
    batch: Tensor | None,
    positions: Tensor | None,
) -> tuple[Any, ...]:
    """The arguments from ``x`` on; where they are ``None``, the fields of ``x`` if that is a ``Data`` or ``Batch``."""
    data = x
    if hasattr(data, "edge_index"):
        x = data.x
        edge_index = data.edge_index if edge_index is None else edge_index
        edge_attr = data.edge_attr if edge_attr is None else edge_attr
        batch = getattr(data, "batch", None) if batch is None else batch
        if positions is None and config.position_features:
            positions = getattr(data, "positions", None)
    if edge_index is None:
        raise ValueError(
            f"edge_index is missing: expected x and edge_index, or PyG's Data, found {type(data).__name__}"
        )
    return x, edge_index, edge_attr, batch, positions
