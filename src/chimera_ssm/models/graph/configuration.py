"""What defines a graph model."""

from __future__ import annotations

from typing import Any, Literal

from transformers import PreTrainedConfig

from chimera_ssm.nn.mixer import INITS

#: Values of each feature of an atom and of a bond, as ogb's ``smiles2graph`` numbers them.
ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND = (5, 6, 2)

CHOICES = {
    "level": ("graph", "node"),
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
    "mixer": ("chimera", "gcn", "gcn_plus", "gine", "gated_gcn", "gps"),
    "arrangement": ("sequential", "parallel"),
    "local": ("gated_gcn", "gcn_plus", "gcn", "gine", "none"),
    "norm": ("batch", "layer", "graph"),
    "pooling": ("mean", "sum", "max"),
    "resolvent": ("exact", "neumann", "dag", "identity"),
    "init": INITS,
    "injection": (None, "hold", "step", "projected"),
    "normalize": ("row", "column"),
}


class ChimeraGraphConfig(PreTrainedConfig):
    """Sizes and choices of a graph model; the defaults are our own network, see ``docs/data/graphs.md``.

    Args:
        node_features: number of real features of a node; or for each of its integer features the number of values.
        edge_features: the same for edges; ``None`` for none.
        position_features: features of a node that tell where it is, such as return probabilities of random walks and
            eigenvectors of the Laplacian; 0 for none.
        eigenvectors: how many of these, the last ones, are eigenvectors: in training each graph's have random signs.
        level: ``"graph"`` for a prediction for each graph, ``"node"`` for each node.
        problem_type: as in `transformers`; ``"regression"`` is by absolute error, classes are weighted by how
            rare they are in a batch.
        label_mean: of each target of a regression, added to what the model says times ``label_std``.
        label_std: of each target of a regression.
        hidden_size: features of a node.
        num_hidden_layers: layers.
        mixer: Chimera or a baseline: ``"chimera"``, ``"gcn"``, ``"gcn_plus"``, ``"gine"``, ``"gated_gcn"``, or
            ``"gps"``, which is GatedGCN with attention.
        arrangement: order of local layer and Chimera: ``"sequential"``, the local layer and then Chimera, as in the
            authors' code; or ``"parallel"``, side by side, as in the paper's text.
        local: the local layer: ``"gated_gcn"``, which also updates edges; ``"gcn_plus"``, which has no residual
            connection; ``"gcn"``, ``"gine"`` or ``"none"``.
        edge_messages: whether the messages of ``"gated_gcn"`` contain edge features; in the authors' code gates alone
            do.
        norm: norms before each part of a layer: ``"batch"``; ``"layer"``, of each node; ``"graph"``, over all nodes and
            features of a graph. The baselines have batch norms either way.
        final_norm: whether there is a norm after the last layer.
        gate: whether Chimera's output is gated.
        conv: whether V, B and C go through a convolution over neighbours.
        injection: β of B̄ = β B: ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; the
            kind's own if ``None``.
        resolvent: the matrix L: ``"exact"``; ``"neumann"``, the first ``terms`` of its series; ``"dag"``, of DAGs in
            place of the graph, which depend on how its nodes are numbered; ``"identity"``, L = I, for ablations.
        normalize: normalization of the weights, ``"row"`` or ``"column"``, see `graph_adjacency`.
        gamma: bound of the row or column sums of A, between 0 and 1: the nearer to 1, the farther influence reaches;
            not for ``"dag"``.
        shared_bias: whether all steps of a head share one bias, as in the authors' code.
        terms: highest power of A in the series; each graph's diameter if ``None``.
        squared: whether the series is the paper's product, which goes on to the next power of two.
        dag_roots: roots of the DAGs, each of which gives two, one away from it and one towards it.
        init: initial values of Chimera, ``"average"`` or ``"paper"``, see `Chimera`.
        dt_min: least initial step.
        dt_max: largest initial step.
        state_size: N, the size of a state.
        num_heads: H of Chimera, or of attention.
        expand: inner width of Chimera in units of ``hidden_size``.
        mlp_ratio: inner width of the feed-forward network in units of ``hidden_size``; 0 for none.
        pooling: how nodes become a graph, ``"mean"``, ``"sum"`` or ``"max"``.
        head_layers: linear layers of the head; all but the last have a residual connection, a layer norm and GELU.
        dropout: probability of dropping a feature in training.
        initializer_range: standard deviation of the embedded features of a node or an edge.
        kwargs: what all configurations of `transformers` take, such as ``num_labels`` and ``id2label``.
    """

    model_type = "chimera_graph"

    node_features: int | list[int] | tuple[int, ...] = ATOM
    edge_features: int | list[int] | tuple[int, ...] | None = BOND
    position_features: int = 0
    eigenvectors: int = 0
    level: str = "graph"
    problem_type: Literal["regression", "single_label_classification", "multi_label_classification"] | None = (
        "multi_label_classification"
    )
    label_mean: list[float] | None = None
    label_std: list[float] | None = None
    hidden_size: int = 164
    num_hidden_layers: int = 3
    mixer: str = "chimera"
    arrangement: str = "sequential"
    local: str = "gcn_plus"
    edge_messages: bool = True
    norm: str = "batch"
    final_norm: bool = False
    gate: bool = True
    conv: bool = True
    injection: str | None = None
    resolvent: str = "exact"
    normalize: str = "row"
    gamma: float = 0.95
    shared_bias: bool = False
    terms: int | None = None
    squared: bool = False
    dag_roots: int = 1
    init: str = "average"
    dt_min: float = 0.001
    dt_max: float = 0.1
    state_size: int = 32
    num_heads: int = 2
    expand: int = 1
    mlp_ratio: int = 0
    pooling: str = "mean"
    head_layers: int = 4
    dropout: float = 0.1
    initializer_range: float = 1.0

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}; found {getattr(self, name)!r}")
        for name in (
            "hidden_size",
            "num_hidden_layers",
            "state_size",
            "num_heads",
            "expand",
            "head_layers",
            "dag_roots",
        ):
            _check_size(name, getattr(self, name))
        for name in ("node_features", "edge_features"):
            sizes = getattr(self, name)
            for size in sizes if isinstance(sizes, (list, tuple)) else [] if sizes is None else [sizes]:
                _check_size(name, size)
        if not 0 <= self.eigenvectors <= self.position_features:
            raise ValueError(
                f"eigenvectors must be from 0 to position_features={self.position_features}, found {self.eigenvectors}"
            )
        if not isinstance(self.mlp_ratio, int) or isinstance(self.mlp_ratio, bool) or self.mlp_ratio < 0:
            raise ValueError(f"mlp_ratio must be an integer of at least 0, found {self.mlp_ratio!r}")
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be between 0 and 1, both excluded, found {self.gamma}")
        if self.terms is not None:
            _check_size("terms", self.terms)
        for name in ("dt_min", "dt_max"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, found {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be from 0 to below 1, found {self.dropout}")
        if self.mixer == "gine" and self.edge_features is None:
            raise ValueError("mixer gine needs features of edges; use gcn where there are none")
        if self.mixer == "gps" and self.hidden_size % self.num_heads:
            raise ValueError(
                "hidden_size must be divisible by num_heads for the attention of gps, "
                f"found {self.hidden_size} features and {self.num_heads} heads"
            )
        for name in ("label_mean", "label_std"):
            values = getattr(self, name)
            if values is not None and len(values) != self.num_labels:
                raise ValueError(f"{name} must have {self.num_labels} entries, one per target, found {len(values)}")


def _check_size(name: str, size: object) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{name} must be an integer of at least 1, found {size!r}")
