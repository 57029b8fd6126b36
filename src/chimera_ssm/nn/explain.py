"""Explanations of graph models by the influence in their resolvents, as an algorithm for PyG's `Explainer`."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.explain import ExplainerAlgorithm, Explanation
from torch_geometric.explain.config import MaskType, ModelTaskLevel

from chimera_ssm.nn.graph_conv import ChimeraConv


class InfluenceExplainer(ExplainerAlgorithm):
    """The influence of nodes and edges in the resolvents L of a model, without training.

        node j:  L[i, j]        edge j → k:  L[i, k] A_kj

    for the explained node i, averaged over the explained nodes, over heads and over the `ChimeraConv` layers. The
    second is the expected number of times that a random walk against the edges, from i, crosses the edge. The influence
    says along which paths features reach a node, not which features the layers make use of.

    The layers must use `OnGraph`. For whole graphs, the influence is averaged over all nodes, T² numbers per head.

    Example:
        >>> explainer = Explainer(model, InfluenceExplainer(), explanation_type="model", node_mask_type="object",
        ...                       edge_mask_type="object", model_config=dict(mode="multiclass_classification",
        ...                       task_level="node", return_type="raw"))
        >>> explainer(x, edge_index, index=10).edge_mask
    """

    def supports(self) -> bool:
        """Nodes and graphs, with masks of whole nodes or edges."""
        level, config = self.model_config.task_level, self.explainer_config
        kinds = {config.node_mask_type, config.edge_mask_type} - {None}
        if level not in (ModelTaskLevel.node, ModelTaskLevel.graph):
            logging.error("InfluenceExplainer explains nodes and graphs, found task_level=%s", level.value)
        elif kinds - {MaskType.object}:
            logging.error("InfluenceExplainer has masks of whole nodes and edges: use mask types 'object' or None")
        else:
            return True
        return False

    @torch.no_grad()
    def forward(
        self,
        model: nn.Module,
        x: Tensor | dict[str, Tensor],
        edge_index: Tensor | dict[Any, Tensor],
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """The explanation of the outputs ``index``, all if omitted; the other arguments are those of the model."""
        if not isinstance(x, Tensor):
            raise ValueError("InfluenceExplainer explains models of homogeneous graphs, found a dictionary of features")
        nodes = self._nodes(index, len(x), kwargs.get("batch"))
        of_nodes, of_edges = [], []

        def collect(conv: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            assert isinstance(conv, ChimeraConv)
            arguments, place = conv.mixer_arguments(*args, **kwargs)
            of_nodes.append(conv.mixer.influence(nodes, **arguments).mean((0, 1)))
            of_edges.append(conv.mixer.edge_influence(nodes, **arguments).mean((0, 1))[place])

        hooks = [
            m.register_forward_pre_hook(collect, with_kwargs=True)
            for m in model.modules()
            if isinstance(m, ChimeraConv)
        ]
        if not hooks:
            raise ValueError(f"{type(model).__name__} has no ChimeraConv, so there is no resolvent to explain it by")
        try:
            model(x, edge_index, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        config = self.explainer_config
        node_mask = torch.stack(of_nodes).mean(0).unsqueeze(1) if config.node_mask_type else None
        return Explanation(
            node_mask=node_mask, edge_mask=torch.stack(of_edges).mean(0) if config.edge_mask_type else None
        )

    def _nodes(self, index: int | Tensor | None, num_nodes: int, batch: Tensor | None) -> list[int]:
        """The explained nodes: those of an output, or of a graph."""
        if index is None:
            return list(range(num_nodes))
        outputs = torch.as_tensor(index).flatten()
        if self.model_config.task_level == ModelTaskLevel.node:
            return outputs.tolist()
        graph = torch.zeros(num_nodes, dtype=torch.long) if batch is None else batch
        return torch.isin(graph, outputs.to(graph.device)).nonzero().flatten().tolist()
