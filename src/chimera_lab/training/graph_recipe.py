"""The settings of graph tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, ClassVar, Literal

from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting

if TYPE_CHECKING:
    from chimera_lab.training.graph_task import GraphTask


@dataclass(frozen=True, kw_only=True)
class GraphRecipe(Recipe):
    """Labels of graphs, or of their nodes."""

    kind: ClassVar[str] = "graph"

    data: str = setting(
        "nci", "nci, rings:1-16, an LRGB name, superpixels:FOLDER, a csv or folder of molecules, or pyg:Class/name",
        at_eval=True, place=("nci", "superpixels:"),
    )  # fmt: skip
    part: Literal["test", "validation"] = setting("test", "the data set's own part to evaluate on", at_eval=True)
    smiles: str = setting("smiles", "csv: the column of molecules", at_eval=True)
    targets: str = setting("y", "csv: columns of labels, with commas between", at_eval=True)
    problem: Literal["regression", "single_label_classification", "multi_label_classification"] | None = setting(
        None, "what the labels must be; none: what they are, and in csv files a regression's"
    )
    bad_smiles: Literal["refuse", "skip"] = setting("refuse", "csv: what to do with unreadable molecules", at_eval=True)
    segments: int = setting(300, "superpixels: regions of an image, about", least=2, at_eval=True)
    walks: int = setting(0, "return probabilities of random walks given to the model", least=0)
    eigenvectors: int = setting(0, "eigenvectors of the Laplacian given to the model", least=0)

    mixer: Literal["chimera", "gcn", "gcn_plus", "gine", "gated_gcn", "gps"] = setting(
        "chimera", "what mixes the nodes"
    )
    arrangement: Literal["sequential", "parallel"] = setting("sequential", "local layer before Chimera, or beside it")
    local: Literal["gated_gcn", "gcn_plus", "gcn", "gine", "none"] = setting("gcn_plus", "the local layer")
    edge_messages: bool = setting(True, "gated_gcn: whether messages contain edge features")
    norm: Literal["batch", "layer", "graph"] = setting("batch", "norms of Chimera's layers")
    final_norm: bool = setting(False, "whether there is a norm after the last layer")
    gate: bool = setting(True, "whether Chimera's output is gated")
    conv: bool = setting(True, "whether V, B and C go through a convolution over neighbours")
    injection: Literal["hold", "step", "projected"] | None = setting(None, "β of B̄ = β B; none: hold where it can be")
    resolvent: Literal["exact", "neumann", "dag", "identity"] = setting("exact", "exact, truncated, of DAGs, or L = I")
    normalize: Literal["row", "column"] = setting("row", "normalisation of the edge weights")
    gamma: float = setting(0.95, "reach: bound of the row sums of A", above=0, below=1)
    shared_bias: bool = setting(False, "whether all steps of a head share one bias")
    terms: int | None = setting(None, "highest power of the truncated series; none: the diameter", least=1)
    squared: bool = setting(False, "neumann: the paper's product, to the next power of two")
    dag_roots: int = setting(1, "dag: roots, each of which gives two DAGs", least=1)
    init: Literal["average", "paper"] = setting("average", "initial values: C · B near one, or the paper's")
    dt_min: float = setting(0.001, "least initial step", above=0)
    dt_max: float = setting(0.1, "largest initial step", above=0)
    hidden_size: int = setting(64, "features of a node", least=1)
    num_hidden_layers: int = setting(4, "layers", least=1)
    state_size: int = setting(16, "N of Chimera", least=1)
    num_heads: int = setting(2, "heads of Chimera, or of attention", least=1)
    expand: int = setting(1, "inner width of Chimera in units of hidden_size", least=1)
    mlp_ratio: int = setting(0, "inner width of the feed-forward network in units of hidden_size; 0: none", least=0)
    pooling: Literal["mean", "sum", "max"] = setting("mean", "how nodes become a graph")
    head_layers: int = setting(4, "linear layers of the head", least=1)
    dropout: float = setting(0.0, "probability of dropping a feature", least=0, below=1)

    @property
    def evaluates_on_validation(self) -> bool:
        return self.part == "validation" or super().evaluates_on_validation

    def task(self) -> GraphTask:
        from chimera_lab.training.graph_task import GraphTask

        return GraphTask(self)

    def with_parameters(self, target: int) -> GraphRecipe:
        import torch

        from chimera_lab.baselines import matching_width

        task = self.task()
        task.graphs  # noqa: B018  read before: not on the meta device

        def count(width: int) -> int:
            with torch.device("meta"):
                model = task.build_model(replace(self, hidden_size=width))
            return sum(p.numel() for p in model.parameters())

        heads = {"chimera": self.num_heads // gcd(self.num_heads, self.expand), "gps": self.num_heads}
        return replace(self, hidden_size=matching_width(count, target, heads.get(self.mixer, 1), self.mixer))
