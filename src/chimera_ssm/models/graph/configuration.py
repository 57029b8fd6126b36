"""What defines a graph model."""

from __future__ import annotations

from typing import Any, Literal

from transformers import PreTrainedConfig

#: Values of each feature of an atom and of a bond, as ogb's ``smiles2graph`` numbers them.
ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND = (5, 6, 2)

CHOICES = {
    "level": ("graph", "node"),
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
    "mixer": ("chimera", "gcn", "gine", "gated_gcn", "gps"),
    "local": ("gcn", "gated_gcn", "none"),
    "norm": ("layer", "batch"),
    "resolvent": ("exact", "neumann", "dag"),
}


class ChimeraGraphConfig(PreTrainedConfig):
    """Sizes and choices of a graph model; the defaults are those of ``chimera_graph_peptides_func``.

    Args:
        node_features: number of real features of a node; or for each of its integer features the number of values.
        edge_features: the same for edges; ``None`` for none.
        position_features: features of a node that tell where it is, such as eigenvectors of the Laplacian; 0 for none.
        level: ``"graph"`` for a prediction for each graph, ``"node"`` for each node.
        problem_type: as in `transformers`; ``"regression"`` is by absolute error, classes are weighted by how
            rare they are in a batch.
        label_mean: of each target of a regression, added to what the model says times ``label_std``.
        label_std: of each target of a regression.
        hidden_size: features of a node.
        num_hidden_layers: layers.
        mixer: ``"chimera"``, or a baseline in its place: ``"gcn"``, ``"gine"``, ``"gated_gcn"``, or ``"gps"``, which is
            GatedGCN with attention.
        local: the local layer beside Chimera: ``"gcn"``, ``"gated_gcn"``, which also updates edges, or ``"none"``.
        norm: before each part of Chimera's layers and after the last: ``"layer"``, as in the paper, or ``"batch"``,
            with which small models learn sooner; the baselines' layers have batch norms either way.
        resolvent: ``"exact"``; ``"neumann"``, the first ``terms`` of its series; ``"dag"``, of two DAGs in
            place of the graph, which depend on how its nodes are numbered.
        gamma: bound of the row sums of A, between 0 and 1: the nearer to 1, the farther nodes hear; not for ``"dag"``.
        terms: highest power of A in the series; each graph's diameter if ``None``.
        state_size: N.
        num_heads: H of Chimera, or of attention.
        expand: inner width of Chimera in units of ``hidden_size``.
        dropout: probability in training.
        initializer_range: standard deviation of initial weights of embeddings.
        kwargs: what all configurations of `transformers` take, such as ``num_labels`` and ``id2label``.
    """

    model_type = "chimera_graph"

    node_features: int | list[int] | tuple[int, ...] = ATOM
    edge_features: int | list[int] | tuple[int, ...] | None = BOND
    position_features: int = 0
    level: str = "graph"
    problem_type: Literal["regression", "single_label_classification", "multi_label_classification"] | None = (
        "multi_label_classification"
    )
    label_mean: list[float] | None = None
    label_std: list[float] | None = None
    hidden_size: int = 64
    num_hidden_layers: int = 8
    mixer: str = "chimera"
    local: str = "gcn"
    norm: str = "layer"
    resolvent: str = "exact"
    gamma: float = 0.95
    terms: int | None = None
    state_size: int = 96
    num_heads: int = 2
    expand: int = 1
    dropout: float = 0.1
    initializer_range: float = 0.02

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; found {getattr(self, name)!r}")
        for name in ("hidden_size", "num_hidden_layers", "state_size", "num_heads", "expand"):
            _check_size(name, getattr(self, name))
        for name in ("node_features", "edge_features"):
            sizes = getattr(self, name)
            for size in sizes if isinstance(sizes, (list, tuple)) else [] if sizes is None else [sizes]:
                _check_size(name, size)
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be between 0 and 1, both excluded, found {self.gamma}")
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
