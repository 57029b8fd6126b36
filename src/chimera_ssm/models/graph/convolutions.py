"""Graph convolutions of the local layers: GatedGCN, GCN+, and PyG's GCN and GINE."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chimera_ssm.errors import missing_extra
from chimera_ssm.models.graph.configuration import ChimeraGraphConfig
from chimera_ssm.models.graph.norms import norm_of, normalized
from chimera_ssm.topology.from_edge_index import PyGTopology


class GraphStructure(NamedTuple):
    """The structure of a batch of graphs.

    Attributes:
        pyg_topology: topology, and the edges of ``edge_index`` in it.
        edge_index: source and target of each edge, ``[2, E]``.
        batch: index of each node's graph, ``[T]``; ``None`` for one graph.
    """

    pyg_topology: PyGTopology
    edge_index: Tensor
    batch: Tensor | None

    @property
    def edge_batch(self) -> Tensor | None:
        """Index of each edge's graph, ``[E]``."""
        return None if self.batch is None else self.batch[self.edge_index[0]]


class GatedGCN(nn.Module):
    """A graph convolution with a gate for each edge and feature, which also updates the edges (Bresson and Laurent).

        ê_ij = A x_i + B x_j + C e_ij        y_i = U x_i + Σ_j σ(ê_ij) ⊙ V x_j / (Σ_j σ(ê_ij) + ε)
        e_ij ← e_ij + relu(norm(ê_ij))

    With ``edge_messages`` the messages are V x_j + C e_ij, so that edge features reach the nodes at once.

    Args:
        config: of the model.
        edges: whether there are edge features; without them C is left out.

    Shapes: ``x [T, dim]``, ``edge [E, dim]`` or ``None`` → the same.
    """

    def __init__(self, config: ChimeraGraphConfig, edges: bool):
        super().__init__()
        dim, self.edge_messages = config.hidden_size, config.edge_messages
        self.node = nn.Linear(dim, 4 * dim)
        self.edge = nn.Linear(dim, dim) if edges else None
        self.norm = norm_of(config) if edges else None

    def forward(self, x: Tensor, edge: Tensor | None, structure: GraphStructure) -> tuple[Tensor, Tensor | None]:
        source, target = structure.edge_index
        at_target, at_source, own, value = self.node(x).chunk(4, dim=-1)
        opening, message = at_target[target] + at_source[source], value[source]
        if self.edge is not None and self.norm is not None and edge is not None:
            projected = self.edge(edge)
            opening = opening + projected
            message = message + projected if self.edge_messages else message
            edge = edge + F.relu(normalized(self.norm, opening, structure.edge_batch))
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


def pyg_conv(name: str, width: int) -> nn.Module:
    """PyG's convolution ``"gcn"``, called as ``conv(x, edge_index)``, or ``"gine"``, ``conv(x, edge_index, edge)``."""
    if name == "gcn":
        return pyg_nn().GCNConv(width, width)
    return pyg_nn().GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))


def pyg_nn() -> Any:
    """The package ``torch_geometric.nn``, which is optional."""
    try:
        import torch_geometric.nn
    except ModuleNotFoundError as error:
        if (remedy := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(f"this graph model cannot be built: {remedy}", name=error.name) from None
    return torch_geometric.nn
