"""Graph models: nodes and edges embedded, layers, and a head for graphs or for nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput, can_return_tuple

from chimera_ssm.models.base import ChimeraPreTrainedModel
from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.layers import Graphs, graph_layer
from chimera_ssm.models.graph.losses import absolute_error, binary_cross_entropy, weighted_cross_entropy
from chimera_ssm.models.graph.norms import BatchNorm, GraphNorm, norm_of, normalized
from chimera_ssm.nn import Chimera
from chimera_ssm.nn.conv import LocalConv
from chimera_ssm.nn.norm import HeadNorm
from chimera_ssm.topology.from_edge_index import PyGTopology, from_edge_index, join_topologies


@dataclass
class GraphOutput(ModelOutput):
    """What a graph model gives.

    Attributes:
        loss: if there were labels.
        logits: ``[graphs, num_labels]`` or ``[nodes, num_labels]``; predictions themselves in a regression.
        last_hidden_state: features of the nodes, ``[nodes, hidden_size]``.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    last_hidden_state: Tensor | None = None


class ChimeraGraphPreTrainedModel(ChimeraPreTrainedModel):
    """What graph models have in common."""

    config_class = ChimeraGraphConfig
    main_input_name = "x"
    _no_split_modules = ["ChimeraGraphLayer", "ConvLayer", "GPSLayer"]  # noqa: RUF012

    def _draw(self, module: nn.Module) -> None:
        """Embeddings normal, their sum of the configuration's deviation; all else as the modules draw themselves."""
        if isinstance(module, SummedEmbedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range / module.count**0.5)
        elif isinstance(module, Chimera):
            module.reset_own_parameters()
        elif isinstance(module, nn.MultiheadAttention):
            module._reset_parameters()
        elif isinstance(module, (nn.Linear, nn.LayerNorm, nn.BatchNorm1d, GraphNorm, HeadNorm, LocalConv)):
            module.reset_parameters()
        elif type(module).__module__ == "torch_geometric.nn.dense.linear":  # none of PyTorch's
            module.reset_parameters()  # ty: ignore[call-non-callable]
        elif type(module).__module__.startswith("torch_geometric.nn.conv"):
            for parameter in module.parameters(recurse=False):
                nn.init.zeros_(parameter)  # biases; all else is in linear layers


class SummedEmbedding(nn.Embedding):
    """Embeddings of several features, each with values of its own, which are added up.

    Args:
        values: for each feature the number of its values.
        dim: size of the vector.

    Shapes: ``[n, features]``, from 0 to below ``values`` → ``[n, dim]``.
    """

    def __init__(self, values: Sequence[int], dim: int):
        super().__init__(sum(values), dim)
        self.count = len(values)
        self.starts = tuple(sum(values[:k]) for k in range(len(values)))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input + torch.tensor(self.starts, device=input.device)).sum(1)


class FeatureEncoder(nn.Module):
    """Features to a vector: a linear map of real ones, a sum of embeddings of integer ones.

    Args:
        features: number of real features, or for each integer feature the number of its values.
        dim: size of the vector.

    Shapes: ``[n, features]`` → ``[n, dim]``.
    """

    def __init__(self, features: int | Sequence[int], dim: int):
        super().__init__()
        self.values = None if isinstance(features, int) else tuple(features)
        self.count = features if isinstance(features, int) else len(features)
        self.linear = nn.Linear(features, dim) if isinstance(features, int) else None
        self.embedding = None if isinstance(features, int) else SummedEmbedding(features, dim)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Encode features; real ones are converted to ``dtype`` first."""
        x = x.unsqueeze(1) if x.dim() == 1 else x
        if x.shape[1:] != (self.count,):
            raise ValueError(f"expected {self.count} features of each node or edge, found {list(x.shape[1:])}")
        if self.linear is not None:
            return self.linear(x.to(dtype))
        assert self.embedding is not None
        assert self.values is not None
        values = torch.tensor(self.values, device=x.device)
        if x.is_floating_point() or (x < 0).any() or (x >= values).any():
            raise ValueError(
                f"features must be integers from 0 to below {list(self.values)}, found {x.dtype}"
                + ("" if x.is_floating_point() or not len(x) else f" from {x.amin(0).tolist()} to {x.amax(0).tolist()}")
            )
        return self.embedding(x)


class PositionEncoder(nn.Module):
    """Positions to a vector, ``linear(norm(positions))``; in training the signs of eigenvectors are random.

    Shapes: ``positions [T, position_features]``, ``batch [T]`` or ``None`` → ``[T, hidden_size]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        self.eigenvectors = config.eigenvectors
        self.norm = BatchNorm(config.position_features)
        self.encoder = FeatureEncoder(config.position_features, config.hidden_size)

    def forward(self, positions: Tensor, batch: Tensor | None, dtype: torch.dtype) -> Tensor:
        positions = positions.to(dtype)
        if self.training and self.eigenvectors and len(positions):
            graph = torch.zeros(len(positions), dtype=torch.long) if batch is None else batch
            sign = torch.ones(int(graph[-1]) + 1, positions.shape[1], dtype=dtype, device=positions.device)
            sign[:, -self.eigenvectors :] -= 2 * torch.randint_like(sign[:, -self.eigenvectors :], 2)
            positions = positions * sign[graph]
        return self.encoder(self.norm(positions), dtype)


class ChimeraGraphModel(ChimeraGraphPreTrainedModel):
    """Features of the nodes of a batch of graphs: encoders, layers, and a norm if there is to be one."""

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__(config)
        width = config.hidden_size
        self.node_encoder = FeatureEncoder(config.node_features, width)
        self.edge_encoder = None if config.edge_features is None else FeatureEncoder(config.edge_features, width)
        self.position_encoder = PositionEncoder(config) if config.position_features else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(graph_layer(config, depth) for depth in range(config.num_hidden_layers))
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
        wiring: PyGTopology | None = None,
        **kwargs: Any,
    ) -> GraphOutput:
        """Features of the nodes; arguments as for `ChimeraForGraphs`."""
        x, edge_index, edge_attr, batch, positions, wiring = _inputs(
            self.config, x, edge_index, edge_attr, batch, positions, wiring
        )
        self._check(x, edge_index, edge_attr, positions)
        edge = None if self.edge_encoder is None else self.edge_encoder(edge_attr, self.dtype)
        h = self.node_encoder(x, self.dtype)
        if self.position_encoder is not None:
            h = h + self.position_encoder(positions, batch, self.dtype)
        graphs = Graphs(from_edge_index(edge_index, len(x), batch) if wiring is None else wiring, edge_index, batch)
        h = self.dropout(h)
        for layer in self.layers:
            h, edge = layer(h, edge, graphs)
        return GraphOutput(last_hidden_state=h if self.norm is None else normalized(self.norm, h, batch))

    def _check(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, positions: Tensor | None) -> None:
        if len(x) == 0:
            raise ValueError("there are no nodes: x has no rows")
        if (edge_attr is None) != (self.edge_encoder is None) and self.edge_encoder is not None:
            raise ValueError("this model needs edge_attr, features of edges; found none")
        if edge_attr is not None and len(edge_attr) != edge_index.shape[1]:
            raise ValueError(
                f"edge_attr must have a row for each of the {edge_index.shape[1]} edges, found {len(edge_attr)}"
            )
        if (positions is None) != (self.position_encoder is None):
            raise ValueError(
                f"positions go with a model with position_features, found {self.config.position_features} of these and "
                f"{'no positions' if positions is None else 'positions'}"
            )
        if positions is not None and positions.shape != (len(x), self.config.position_features):
            raise ValueError(
                f"positions must have shape [{len(x)}, {self.config.position_features}], a row for each node, "
                f"found {list(positions.shape)}"
            )


class Head(nn.Module):
    """Residual layers ``x + dropout(gelu(norm(linear(x))))`` and a linear one.

    Shapes: ``[n, hidden_size]`` → ``[n, num_labels]``.
    """

    def __init__(self, config: ChimeraGraphConfig):
        super().__init__()
        width, labels = config.hidden_size, config.num_labels
        self.hidden = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(config.dropout))
            for _ in range(config.head_layers - 1)
        )
        self.out = nn.Linear(width, labels)  # ty: ignore[invalid-argument-type]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = x + layer(x)
        return self.out(x)


class ChimeraForGraphs(ChimeraGraphPreTrainedModel):
    """Predictions for graphs, from their nodes' features pooled, or for nodes.

    Called as PyG's models are, ``model(x, edge_index, edge_attr, batch)``, or with a ``Data`` or ``Batch`` of PyG.

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
        wiring: PyGTopology | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> GraphOutput:
        """Predictions, and the loss if there are labels.

        Args:
            x: features of the nodes; or a ``Data`` or ``Batch`` with everything up to ``batch``, and ``positions``, of
                which those are taken that are not given beside it.
            edge_index: row 0 the source and row 1 the target of each edge.
            edge_attr: features of the edges.
            batch: graph that each node belongs to; one graph if omitted.
            labels: as the predictions for a regression (NaN: unknown) and for several labels; classes otherwise.
            positions: ``[T, position_features]``.
            wiring: of ``edge_index`` and ``batch``, if it is known already.
            batch_size: number of graphs; found from ``batch`` if omitted.
            kwargs: ``return_dict``.
        """
        if batch is None and batch_size is None:
            batch_size = getattr(x, "num_graphs", None)
        x, edge_index, edge_attr, batch, positions, wiring = _inputs(
            self.config, x, edge_index, edge_attr, batch, positions, wiring
        )
        nodes = self.chimera(x, edge_index, edge_attr, batch, positions, wiring, return_dict=True).last_hidden_state
        features = _pooled(nodes, batch, batch_size, self.config.pooling) if self.config.level == "graph" else nodes
        logits = self.head(features)
        if self.config.label_std is not None:
            logits = logits * logits.new_tensor(self.config.label_std)
        if self.config.label_mean is not None:
            logits = logits + logits.new_tensor(self.config.label_mean)
        loss = None if labels is None else self.loss_of(logits, labels)
        return GraphOutput(loss=loss, logits=logits, last_hidden_state=nodes)

    def loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of predictions: of a regression in units of ``label_std``."""
        if self.config.problem_type == "multi_label_classification":
            return binary_cross_entropy(logits, labels)
        if self.config.problem_type == "single_label_classification":
            _check_classes(logits, labels)
            return weighted_cross_entropy(logits, labels)
        scale = 1.0 if self.config.label_std is None else logits.new_tensor(self.config.label_std)
        return absolute_error(logits, labels, scale)


def _pooled(nodes: Tensor, batch: Tensor | None, batch_size: int | None, pooling: str) -> Tensor:
    """The mean, sum or maximum over each graph's nodes, ``[B, hidden_size]``; zero for a graph without nodes."""
    if batch is None:
        batch = torch.zeros(len(nodes), dtype=torch.long, device=nodes.device)
    count = torch.bincount(batch, minlength=batch_size or 0)
    if batch_size is not None and len(count) > batch_size:
        raise ValueError(
            f"batch_size must be at least {len(count)}, as batch numbers graphs from 0 to {len(count) - 1}, "
            f"found {batch_size}; leave it out to have it found"
        )
    zeros = nodes.new_zeros(len(count), nodes.shape[1])
    if pooling == "max":
        return zeros.index_reduce(0, batch, nodes, "amax", include_self=False)
    total = zeros.index_add(0, batch, nodes)
    return total if pooling == "sum" else total / count.clamp(min=1).unsqueeze(1)


def _check_classes(logits: Tensor, labels: Tensor) -> None:
    """Refuse what is not a class for each prediction, negative where it is unknown."""
    if labels.shape != logits.shape[:1]:
        remedy = "; remove the last dimension with .squeeze(1)" if labels.shape == (len(logits), 1) else ""
        raise ValueError(f"labels must have shape [{len(logits)}], a class each, found {list(labels.shape)}{remedy}")
    if labels.dtype != torch.long:
        raise ValueError(f"classes must be int64, found {labels.dtype}; convert them with .long()")
    if len(labels) and (highest := int(labels.max())) >= logits.shape[1]:
        raise ValueError(
            f"classes must be below num_labels={logits.shape[1]}, found {highest}; build the model with more labels, "
            "or number the classes from 0 on"
        )


def _inputs(
    config: Any,
    x: Any,
    edge_index: Tensor | None,
    edge_attr: Tensor | None,
    batch: Tensor | None,
    positions: Tensor | None,
    wiring: PyGTopology | None,
) -> tuple[Any, ...]:
    """These arguments; where ``x`` is PyG's ``Data`` or ``Batch``, what is not given is taken from it."""
    data = x
    if hasattr(data, "edge_index"):
        x = data.x
        edge_index = data.edge_index if edge_index is None else edge_index
        edge_attr = data.edge_attr if edge_attr is None else edge_attr
        batch = getattr(data, "batch", None) if batch is None else batch
        if positions is None and config.position_features:
            positions = getattr(data, "positions", None)
        wiring = _kept_wiring(data, edge_index, batch) if wiring is None else wiring
    if edge_index is None:
        raise ValueError(
            f"edge_index is missing: expected x and edge_index, or PyG's Data, found {type(data).__name__}"
        )
    return x, edge_index, edge_attr, batch, positions, wiring


@torch.compiler.disable  # as `from_edge_index`: it depends on values
def _kept_wiring(data: Any, edge_index: Tensor | None, batch: Tensor | None) -> PyGTopology | None:
    """What `KeepPlan` found, if it saw these nodes, edges and graphs."""
    wiring = getattr(data, "wiring", None)
    if isinstance(wiring, list):  # a batch has those of its graphs; one without nodes has nothing
        known = [w for w in wiring if w]
        wiring = join_topologies(known) if known else None
    if not wiring or edge_index is None:
        return None
    wiring = wiring.to(edge_index.device)
    return wiring if wiring.fits(edge_index, len(data.x), batch) else None
