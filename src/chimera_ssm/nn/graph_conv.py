"""`ChimeraConv`: the mixer with the call of PyG's layers."""

from __future__ import annotations

from torch import Tensor, nn

from chimera_ssm.nn.kinds import Kind
from chimera_ssm.nn.mixer import Chimera
from chimera_ssm.ops import Solver
from chimera_ssm.topology.from_edge_index import check_edge_index, from_edge_index, instead_of_dense


class ChimeraConv(nn.Module):
    """A state space model on each graph of a batch, called like any layer of PyG.

        y = (L ⊙ C B̄ᵀ) V,        L = (I − A)⁻¹

    with A on the given edges: every node is influenced by all nodes that have a path to it, exactly. Duplicate edges
    are merged and their features averaged. Self-loops, isolated nodes and graphs without edges are supported.

    Args:
        in_channels: features of a node.
        out_channels: output features of a node; ``in_channels`` if omitted.
        heads: H; ``max(1, expand · out_channels // 64)`` if omitted.
        state: N.
        edge_dim: features of an edge.
        expand: inner width in units of ``out_channels``.
        gate: whether to gate the output.
        kind: ``OnGraph()`` if omitted, the resolvent of the graph; ``OnDAG()`` for its decomposition into DAGs, which
            depends on the numbering of the nodes.
        solver: the fastest exact one if omitted; ``Neumann(terms)`` truncates, by default at each graph's diameter.

    Shapes: ``x [T, in_channels]``, ``edge_index [2, E]``, ``edge_attr [E, edge_dim]``, ``batch [T]``, ascending →
    ``[T, out_channels]``.

    Example:
        >>> conv = ChimeraConv(64, edge_dim=16)
        >>> conv(data.x, data.edge_index, data.edge_attr, data.batch)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int | None = None,
        heads: int | None = None,
        state: int = 64,
        edge_dim: int | None = None,
        expand: int = 1,
        gate: bool = False,
        kind: Kind | None = None,
        solver: Solver | None = None,
    ):
        super().__init__()
        if in_channels < 1:
            raise ValueError(
                f"in_channels must be at least 1, found {in_channels}; pass the number of features of a node: unlike "
                "some layers of PyG, this one does not infer it at the first call"
            )
        self.in_channels = in_channels
        self.out_channels = in_channels if out_channels is None else out_channels
        self.edge_dim = edge_dim
        same = self.out_channels == in_channels
        self.lin = nn.Identity() if same else nn.Linear(in_channels, self.out_channels, bias=False)
        self.mixer = Chimera(
            self.out_channels, heads, state, expand, gate=gate, edge_dim=edge_dim, kind=kind, solver=solver
        )

    def reset_parameters(self) -> None:
        """Initialize all parameters."""
        if isinstance(self.lin, nn.Linear):
            self.lin.reset_parameters()
        self.mixer.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Mix the features of the nodes of each graph.

        Args:
            x: ``[T, in_channels]``.
            edge_index: ``[2, E]``.
            edge_attr: ``[E, edge_dim]``; one feature may be ``[E]``.
            batch: index of each node's graph; without it all nodes are one graph, which is slower. The result is the
                same except for ``Neumann()``, which uses the diameter of the whole graph, and for `OnDAG`, which
                decomposes the whole graph.
            batch_size: ignored; accepted for compatibility with PyG's layers.
        """
        check_edge_index(edge_index)
        self._check_nodes(x)
        if edge_attr is not None:
            edge_attr = self._columns(edge_attr, edge_index.shape[1])
        if len(x) == 0:
            return x.new_zeros(0, self.out_channels)
        pyg_topology = from_edge_index(edge_index, len(x), batch)
        return self.mixer(self.lin(x), pyg_topology.topology, pyg_topology.features(edge_attr))

    def _check_nodes(self, x: Tensor) -> None:
        if (found := instead_of_dense(x)) is not None:
            raise ValueError(f"x must be a dense tensor, found {found}; convert a sparse one with .to_dense()")
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(f"x must have shape [nodes, {self.in_channels}], found {list(x.shape)}")

    def _columns(self, edge_attr: Tensor, num_edges: int) -> Tensor:
        """Edge features as ``[E, edge_dim]``, in the order given."""
        found = list(edge_attr.shape)
        edge_attr = edge_attr.unsqueeze(1) if edge_attr.dim() == 1 else edge_attr
        if self.edge_dim is None:
            raise ValueError(f"edge_attr needs a layer with edge_dim, found edge_dim=None and edge_attr {found}")
        if edge_attr.shape != (num_edges, self.edge_dim):
            raise ValueError(
                f"edge_attr must have shape [{num_edges}, {self.edge_dim}], a row for each of the {num_edges} edges, "
                f"found {found}"
            )
        return edge_attr

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.mixer.num_heads})"
