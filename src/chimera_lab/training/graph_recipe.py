"""The settings of graph tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chimera_lab.training.model_settings import model_settings
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting
from chimera_ssm.models.graph.configuration import ChimeraGraphConfig

_Model: Any = model_settings(
    ChimeraGraphConfig,
    exclude=(
        "node_features", "edge_features", "position_features", "eigenvectors", "level", "problem_type", "label_mean",
        "label_std", "initializer_range", "mixer",
    ),
    hidden_size=64, num_hidden_layers=4, state_size=16, dropout=0.0,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GraphRecipe(_Model, Recipe):
    """Labels of graphs, or of their nodes."""

    kind: ClassVar[str] = "graph"

    if TYPE_CHECKING:  # type checkers do not see the fields of _Model

        def __init__(self, **settings: Any) -> None: ...

    data: str = setting(
        "nci",
        "nci, transfer:3-50, trees:2-6, properties:distance, scenes, an LRGB name, superpixels:…, csv, folder, pyg:…",
        at_eval=True, place=("nci", "superpixels:"),
    )  # fmt: skip
    mixer: Literal[
        "chimera", "gcn", "gcn_plus", "gine", "gated_gcn", "gps", "san", "exphormer", "bigbird", "graph_mamba", "gmn",
        "neural_walker", "neural_walker_chimera",
    ] = setting("chimera", "Chimera or a baseline, see docs/baselines.md")  # fmt: skip
    part: Literal["test", "validation"] = setting("test", "the part of the data set to evaluate on", at_eval=True)
    smiles: str = setting("smiles", "csv: the column of SMILES", at_eval=True)
    targets: str = setting("y", "csv: the columns of labels, separated by commas", at_eval=True)
    problem: Literal["regression", "single_label_classification", "multi_label_classification"] | None = setting(
        None, "required type of the labels; none: inferred, and regression in csv files"
    )
    bad_smiles: Literal["refuse", "skip"] = setting("refuse", "csv: treatment of unreadable molecules", at_eval=True)
    segments: int = setting(300, "superpixels: approximate number of regions per image", least=2, at_eval=True)
    loss: Literal["absolute", "squared"] = setting("absolute", "regression: the error to minimize")
    walks: int = setting(0, "number of random-walk return probabilities given to the model", least=0)
    eigenvectors: int = setting(0, "number of Laplacian eigenvectors given to the model", least=0)

    @property
    def evaluates_on_validation(self) -> bool:
        return self.part == "validation" or super().evaluates_on_validation
