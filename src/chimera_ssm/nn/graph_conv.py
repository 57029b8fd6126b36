"""`ChimeraConv`: the mixer with the call of PyG's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from chimera_ssm.nn.kinds import Kind, OnGraph
from chimera_ssm.nn.local_conv import normalized_sum
from chimera_ssm.nn.mixer import Chimera
from chimera_ssm.nn.mixer_checks import check_dtype, check_floating
from chimera_ssm.ops import Solver
from chimera_ssm.topology.checks import capturing
from chimera_ssm.topology.from_edge_index import check_edge_index, from_edge_index, instead_of_dense

if TYPE_CHECKING:
    MessagePassing = nn.Module
else:
    try:
        from torch_geometric.nn import MessagePassing
    except ModuleNotFoundError:  # the layer itself does not need PyG
        MessagePassing = nn.Module


#: Initial scale of the mix. On validation nodes of generated graphs 0.1 is ahead of 1 (docs/data/graphs.md).
_SCALE = 0.1


class ChimeraConv(MessagePassing):
    """A state space model on each graph of a batch, called like any layer of PyG.

        h = GCN(x)        y = h + s ⊙ out_proj(RMSNorm((L ⊙ C B̄ᵀ) V + D V)),        L = (I − A)⁻¹

    GCN is the graph convolution of Kipf and Welling, h_i = Σ_j w_ij (W x_j + b) / √(d_i d_j) over a node and its
    in-neighbours. V, B, C and A, on the given edges, are computed from h. Every node is influenced by all nodes that
    have a path to it, exactly. Duplicate edges are merged, their features and weights averaged. Self-loops, isolated
    nodes and graphs without edges are supported.

    With ``skip`` the mix starts at zero, and the learned scale s of each output channel (LayerScale, Touvron et al.
    2021) at 0.1: the layer is at first a graph convolution, and learns slowly what longer paths add, so that it does
    not overfit where labels are few.

    Where PyG is installed the layer is a `MessagePassing`, so that PyG's tools find it. It has no separate messages:
    the edge masks of PyG's `Explainer` multiply ``edge_weight``, and a masked edge has the effect of no edge.

    Args:
        in_channels: features of a node; −1 infers them at the first call. For bipartite graphs a pair, of the source
            and of the target nodes.
        out_channels: output features of a node; ``in_channels`` if omitted.
        num_heads: H; ``max(1, expand · out_channels // 64)`` if omitted.
        state_size: N.
        edge_dim: features of an edge.
        expand: inner width in units of ``out_channels``.
        gate: whether to gate the output.
        kind: ``OnGraph(aggregate="mean")`` if omitted, the resolvent of the graph, whose local convolution starts as
            the mean over neighbours; ``OnDAG()`` for its decomposition into DAGs, which depends on the numbering of the
            nodes.
        solver: the fastest exact one if omitted; ``Neumann(terms)`` truncates, by default at each graph's diameter.
        heads: PyG's name of ``num_heads``.
        skip: whether the layer contains the graph convolution. Without it h = W x + b, and y is the mix alone.
        conv: whether V, B and C go through a local convolution.
        resolvent: ``"exact"``, or ``"identity"`` for L = I with everything else unchanged, for ablations.

    The bound γ of the row sums of A is an option of the kind, like all that concerns A. If answers are many hops away,
    use ``kind=OnGraph(aggregate="mean", gamma=0.999), gate=True, skip=False``.

    Shapes: ``x [T, in_channels]``, ``edge_index [2, E]``, ``edge_attr [E, edge_dim]``, ``batch [T]``, ascending,
    ``edge_weight [E]`` → ``[T, out_channels]``. For bipartite graphs ``x`` is a pair, and the output has a row for each
    target node.

    Example:
        >>> conv = ChimeraConv(64, edge_dim=16)
        >>> conv(data.x, data.edge_index, data.edge_attr, data.batch)
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int | None = None,
        num_heads: int | None = None,
        state_size: int = 64,
        edge_dim: int | None = None,
        expand: int = 1,
        gate: bool = False,
        kind: Kind | None = None,
        solver: Solver | None = None,
        heads: int | None = None,
        skip: bool = True,
        conv: bool = True,
        resolvent: str = "exact",
    ):
        super().__init__()
        if None not in (num_heads, heads):
            raise ValueError(f"heads is another name of num_heads: pass one, found {heads} and {num_heads}")
        self.in_channels, self.out_channels = in_channels, _out_channels(in_channels, out_channels)
        self.edge_dim = edge_dim
        first, *second = in_channels if isinstance(in_channels, tuple) else (in_channels,)
        self.lin = _projection(first, self.out_channels)
        self.lin_dst = _projection(second[0], self.out_channels) if second else None
        num_heads = heads if num_heads is None else num_heads
        kind = OnGraph(aggregate="mean") if kind is None else kind
        self.mixer = Chimera(
            self.out_channels,
            num_heads,
            state_size,
            expand,
            gate=gate,
            edge_dim=edge_dim,
            kind=kind,
            conv=conv,
            resolvent=resolvent,
            solver=solver,
        )
        self.scale = nn.Parameter(torch.empty(self.out_channels)) if skip else None
        self._start_from_the_convolution()

    def reset_parameters(self) -> None:
        """Initialize all parameters."""
        for projection in (self.lin, self.lin_dst):
            if projection is not None:
                projection.reset_parameters()
        self.mixer.reset_parameters()
        self._start_from_the_convolution()

    def _start_from_the_convolution(self) -> None:
        if self.scale is not None:
            nn.init.zeros_(self.mixer.out_proj.weight)
            nn.init.constant_(self.scale, _SCALE)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Mix the features of the nodes of each graph.

        Args:
            x: ``[T, in_channels]``; or a pair, of source and of target nodes, where ``edge_index`` leads from the
                former to the latter: these graphs are one graph of both sets of nodes.
            edge_index: ``[2, E]``.
            edge_attr: ``[E, edge_dim]``; one feature may be ``[E]``.
            batch: index of each node's graph; without it all nodes are one graph, which is slower. The result is the
                same except for ``Neumann()``, which uses the diameter of the whole graph, and for `OnDAG`, which
                decomposes the whole graph.
            batch_size: ignored; accepted for compatibility with PyG's layers.
            edge_weight: w ≥ 0, ``[E]``, for `OnGraph`: multiplies A before it is normalized.
        """
        check_edge_index(edge_index)
        pair = isinstance(x, (tuple, list))
        if not pair and x.shape[0] == 0:
            return x.new_zeros(0, self.out_channels)
        arguments, _ = self.mixer_arguments(x, edge_index, edge_attr, batch, edge_weight=edge_weight)
        y = self.mixer(**arguments)
        y = y if self.scale is None else arguments["x"] + self.scale * y
        return y[x[0].shape[0] :] if pair else y

    def mixer_arguments(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        edge_weight: Tensor | None = None,
    ) -> tuple[dict[str, Any], Tensor | slice]:
        """The arguments of the mixer for those of `forward`, and the place of each given edge among its edges."""
        check_edge_index(edge_index)
        num_edges = edge_index.shape[1]
        edge_attr = None if edge_attr is None else self._columns(edge_attr, num_edges)
        edge_weight = self._masked(edge_weight, num_edges)
        if isinstance(x, (tuple, list)):
            features, edge_index = self._join(tuple(x), edge_index, batch)
        else:
            _check_features("x", x, self.lin)
            # The nodes of one set are sources and targets.
            features = self.lin(x) if self.lin_dst is None else self.lin(x) + self.lin_dst(x)
        found = from_edge_index(edge_index, features.shape[0], batch)
        edge_weight = found.features(edge_weight)
        if self.scale is not None:
            weight = None if edge_weight is None else edge_weight.unsqueeze(0)
            features = normalized_sum(features.unsqueeze(0), found.topology, weight).squeeze(0)
        arguments = {
            "x": features,
            "topology": found.topology,
            "edge_attr": found.features(edge_attr),
            "edge_weight": edge_weight,
        }
        return arguments, slice(None) if found.edge is None else found.edge

    def _join(self, x: tuple[Tensor, ...], edge_index: Tensor, batch: Tensor | None) -> tuple[Tensor, Tensor]:
        """Features of all nodes of a bipartite graph, targets after sources, and its edges in this numbering."""
        if self.lin_dst is None:
            raise ValueError(
                "x is a pair, of the source and the target nodes of a bipartite graph, and this layer has "
                f"in_channels={self.in_channels}; build it with a pair of channels: ChimeraConv((-1, -1), …)"
            )
        if batch is not None:
            raise ValueError(
                "batch is not supported with a pair of node features; leave it out: the result is the same"
            )
        if len(x) != 2 or x[1] is None:
            raise ValueError("a pair of node features must have both: target nodes are part of the graph")
        for name, nodes, lin in zip(("x[0]", "x[1]"), x, (self.lin, self.lin_dst), strict=True):
            _check_features(name, nodes, lin)
        return torch.cat([self.lin(x[0]), self.lin_dst(x[1])]), _numbered(edge_index, x[0].shape[0], x[1].shape[0])

    def _columns(self, edge_attr: Tensor, num_edges: int) -> Tensor:
        """Edge features as ``[E, edge_dim]``, in the order given."""
        found = list(edge_attr.shape)
        edge_attr = edge_attr.unsqueeze(1) if edge_attr.dim() == 1 else edge_attr
        if self.edge_dim is None:
            raise ValueError(
                f"edge_attr needs a layer with edge_dim, found edge_dim=None and edge_attr {found}; weights of edges "
                "are passed by name: edge_weight=…"
            )
        if edge_attr.shape != (num_edges, self.edge_dim):
            raise ValueError(
                f"edge_attr must have shape [{num_edges}, {self.edge_dim}], a row for each of the {num_edges} edges, "
                f"found {found}"
            )
        return edge_attr

    def _masked(self, edge_weight: Tensor | None, num_edges: int) -> Tensor | None:
        """Edge weights, multiplied by the mask that PyG's `Explainer` has set."""
        if edge_weight is not None and edge_weight.shape != (num_edges,):
            raise ValueError(
                f"edge_weight must have shape [{num_edges}], a weight for each edge, found {list(edge_weight.shape)}"
            )
        mask = getattr(self, "_edge_mask", None)
        if mask is None or not self.explain:
            return edge_weight
        mask = mask.sigmoid() if self._apply_sigmoid else mask
        return mask if edge_weight is None else edge_weight * mask

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, num_heads={self.mixer.num_heads})"


def _out_channels(in_channels: int | tuple[int, int], out_channels: int | None) -> int:
    """The number of output channels; raises a ValueError if the arguments do not define it."""
    widths = in_channels if isinstance(in_channels, tuple) else (in_channels,)
    if len(widths) > 2 or any(width < 1 and width != -1 for width in widths):
        raise ValueError(
            f"in_channels must be at least 1, or -1 to infer it at the first call, or a pair for bipartite graphs, "
            f"found {in_channels}"
        )
    if out_channels is not None:
        return out_channels
    if in_channels == -1 or isinstance(in_channels, tuple):
        raise ValueError(f"in_channels={in_channels} needs out_channels; pass the number of output features")
    return in_channels


class _Projection(nn.Linear):
    """A linear layer with the initial values of PyG's convolutions: Glorot's for the weight, and zero."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


class _LazyProjection(nn.LazyLinear):
    cls_to_become = _Projection

    def reset_parameters(self) -> None:
        if self.in_features and not isinstance(self.weight, nn.UninitializedParameter):
            nn.init.xavier_uniform_(self.weight)
            nn.init.zeros_(self.bias)


def _projection(in_channels: int, out_channels: int) -> nn.Linear:
    return _LazyProjection(out_channels) if in_channels == -1 else _Projection(in_channels, out_channels)


def _check_features(name: str, x: Tensor, lin: nn.Linear) -> None:
    """Check features ``[nodes, channels]`` of a projection; 0 channels are yet to be inferred."""
    width = lin.in_features
    if (found := instead_of_dense(x)) is not None:
        raise ValueError(f"{name} must be a dense tensor, found {found}; convert a sparse one with .to_dense()")
    if x.dim() != 2 or (width and x.shape[1] != width):
        raise ValueError(f"{name} must have shape [nodes, {width or 'channels'}], found {list(x.shape)}")
    check_floating(name, x)
    check_dtype(name, x, lin)


def _numbered(edge_index: Tensor, sources: int, targets: int) -> Tensor:
    """Edges from source to target nodes of a bipartite graph, with the target nodes numbered after the source nodes."""
    for row, count, name in ((0, sources, "source"), (1, targets, "target")):
        nodes = edge_index[row]
        if not capturing() and nodes.numel() and (nodes.min() < 0 or nodes.max() >= count):
            raise ValueError(
                f"row {row} of edge_index must number the {count} {name} nodes from 0 to {count - 1}, found "
                f"{nodes.min().item()} to {nodes.max().item()}"
            )
    return torch.stack([edge_index[0], edge_index[1] + sources])
