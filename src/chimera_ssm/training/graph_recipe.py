"""The settings of graph tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, ClassVar, Literal

from chimera_ssm.training.recipe import Recipe
from chimera_ssm.training.settings import setting

if TYPE_CHECKING:
    from chimera_ssm.training.graph_task import GraphTask


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
    position_features: int = setting(0, "eigenvectors of the Laplacian given to the model", least=0)

    mixer: Literal["chimera", "gcn", "gine", "gated_gcn", "gps"] = setting("chimera", "what mixes the nodes")
    local: Literal["gcn", "gated_gcn", "none"] = setting("gcn", "the local layer beside Chimera")
    norm: Literal["layer", "batch"] = setting("layer", "norms of Chimera's layers, and the last of any model")
    resolvent: Literal["exact", "neumann", "dag"] = setting("exact", "exact, truncated, or of two DAGs")
    gamma: float = setting(0.95, "how far nodes hear: bound of what a node takes from its neighbours", above=0, below=1)
    terms: int | None = setting(None, "highest power of the truncated series; none: the diameter", least=1)
    hidden_size: int = setting(64, "features of a node", least=1)
    num_hidden_layers: int = setting(4, "layers", least=1)
    state_size: int = setting(16, "N of Chimera", least=1)
    num_heads: int = setting(2, "heads of Chimera, or of attention", least=1)
    expand: int = setting(1, "inner width of Chimera in units of hidden_size", least=1)
    dropout: float = setting(0.0, "probability of dropping a feature", least=0, below=1)

    def task(self) -> GraphTask:
        from chimera_ssm.training.graph_task import GraphTask

        return GraphTask(self)

    def with_parameters(self, target: int) -> GraphRecipe:
        import torch

        from chimera_ssm.models.width import matching_width

        task = self.task()
        task.graphs  # noqa: B018  read before: not on the meta device

        def count(width: int) -> int:
            with torch.device("meta"):
                model = task.build_model(replace(self, hidden_size=width))
            return sum(p.numel() for p in model.parameters())

        heads = {"chimera": self.num_heads // gcd(self.num_heads, self.expand), "gps": self.num_heads}
        return replace(self, hidden_size=matching_width(count, target, heads.get(self.mixer, 1), self.mixer))
