"""The configuration of graph models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from transformers import PreTrainedConfig

from chimera_ssm.models.configuration import (
    INJECTION_CHOICES,
    check_choices,
    check_probabilities,
    check_size,
    check_sizes,
    warn_of_misspelled,
)
from chimera_ssm.models.mixers import check_mixer
from chimera_ssm.nn.mixer_parameters import INITS

#: Number of values of each feature of an atom and of a bond, as defined by ogb's ``smiles2graph``.
ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND = (5, 6, 2)

CHOICES = {
    "level": ("graph", "node"),
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
    "arrangement": ("sequential", "parallel"),
    "local": ("gated_gcn", "gcn_plus", "gcn", "gine", "none"),
    "norm": ("batch", "layer", "graph"),
    "pooling": ("mean", "sum", "max"),
    "resolvent": ("exact", "neumann", "dag", "identity"),
    "init": INITS,
    "injection": INJECTION_CHOICES,
    "normalize": ("row", "column"),
}
SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "state_size",
    "num_heads",
    "expand",
    "head_layers",
    "dag_roots",
    "walk_length",
)


class ChimeraGraphConfig(PreTrainedConfig):
    """Sizes and choices of a graph model; the defaults are those of our network, see ``docs/data/graphs.md``.

    Args:
        node_features: number of real features of a node, or number of values of each of its integer features.
        edge_features: the same for edges; ``None`` for none.
        position_features: number of position features of a node, such as return probabilities of random walks and
            eigenvectors of the Laplacian; 0 for none.
        eigenvectors: number of eigenvectors, which come last among them; in training their signs are random.
        level: ``"graph"`` for a prediction for each graph, ``"node"`` for each node.
        problem_type: as in `transformers`; ``"regression"`` minimizes the absolute error, and classes are weighted by
            their rarity in a batch.
        label_mean: mean of each target of a regression, added to the output of the head times ``label_std``.
        label_std: standard deviation of each target of a regression.
        hidden_size: features of a node.
        num_hidden_layers: layers.
        mixer: the mixer of a layer: ``"chimera"``, or a baseline that `chimera_lab.baselines` registers.
        arrangement: order of local layer and Chimera: ``"sequential"``, the local layer followed by Chimera, as in the
            authors' code; or ``"parallel"``, their sum, as in the paper's text.
        local: the local layer: ``"gated_gcn"``, which also updates edges; ``"gcn_plus"``, which has no residual
            connection; ``"gcn"``, ``"gine"`` or ``"none"``.
        edge_messages: whether the messages of ``"gated_gcn"`` contain edge features; in the authors' code only gates
            do.
        norm: norm before each part of a layer: ``"batch"``; ``"layer"``, of each node; ``"graph"``, over all nodes and
            features of a graph. The baselines always have batch norms.
        final_norm: whether there is a norm after the last layer.
        gate: whether Chimera's output is gated.
        conv: whether V, B and C go through a convolution over in-neighbours.
        injection: β of B̄ = β B: ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; if
            ``None``, the default of the kind.
        resolvent: the matrix L: ``"exact"``; ``"neumann"``, the first ``terms`` of its series; ``"dag"``, of DAGs that
            replace the graph and depend on the numbering of its nodes; ``"identity"``, L = I, for ablations.
        normalize: normalization of the weights, ``"row"`` or ``"column"``, see `graph_adjacency`.
        gamma: bound of the row or column sums of A, between 0 and 1; the closer to 1, the longer its range;
            not used by ``"dag"``.
        shared_bias: whether all steps of a head share one bias, as in the authors' code.
        terms: highest power of A in the series; the diameter of each graph if ``None``.
        squared: whether to compute the paper's product, which extends the series to the next power of two.
        dag_roots: number of roots; each gives two DAGs, away from it and towards it.
        init: initial values of Chimera, ``"average"`` or ``"paper"``, see `Chimera`.
        dt_min: smallest initial step.
        dt_max: largest initial step.
        state_size: N, the size of a state.
        num_heads: heads of Chimera, or of attention.
        expander_degree: even degree of the random graph along which ``"exphormer"`` attends; 0 for none.
        walk_length: steps of a random walk of ``"neural_walker"``.
        expand: inner width of Chimera in units of ``hidden_size``.
        mlp_ratio: inner width of the feed-forward network in units of ``hidden_size``; 0 for none.
        pooling: reduction over the nodes of a graph, ``"mean"``, ``"sum"`` or ``"max"``.
        head_layers: linear layers of the head; all but the last have a residual connection, a layer norm and GELU.
        dropout: dropout probability.
        initializer_range: standard deviation of the embedded features of a node or an edge.
        kwargs: arguments of all configurations of `transformers`, such as ``num_labels`` and ``id2label``.
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
    expander_degree: int = 4
    walk_length: int = 100
    expand: int = 1
    mlp_ratio: int = 0
    pooling: str = "mean"
    head_layers: int = 4
    dropout: float = 0.1
    initializer_range: float = 1.0

    def __post_init__(self, **kwargs: Any) -> None:
        warn_of_misspelled(self, kwargs)
        super().__post_init__(**kwargs)
        check_mixer("graph", self.mixer)
        check_choices(self, CHOICES)
        check_sizes(self, SIZES)
        check_sizes(self, ["mlp_ratio", "expander_degree"], least=0)
        if self.expander_degree % 2:
            raise ValueError(f"expander_degree must be even, found {self.expander_degree}")
        check_probabilities(self, ["dropout"])
        if self.terms is not None:
            check_size("terms", self.terms)
        for name in ("dt_min", "dt_max"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, found {getattr(self, name)}")
        for name in ("node_features", "edge_features"):
            sizes = getattr(self, name)
            for size in sizes if isinstance(sizes, (list, tuple)) else [] if sizes is None else [sizes]:
                check_size(name, size)
        if not 0 <= self.eigenvectors <= self.position_features:
            raise ValueError(
                f"eigenvectors must be from 0 to position_features={self.position_features}, found {self.eigenvectors}"
            )
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be between 0 and 1, both excluded, found {self.gamma}")
        for name in ("label_mean", "label_std"):
            values = getattr(self, name)
            if values is not None and len(values) != self.num_labels:
                raise ValueError(f"{name} must have {self.num_labels} entries, one per target, found {len(values)}")

    @classmethod
    def choices(cls) -> dict[str, Sequence[Any]]:
        """The values of fields that have a fixed list of them."""
        return dict(CHOICES)
