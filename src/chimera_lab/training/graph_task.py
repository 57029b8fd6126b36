"""Graph tasks as the loop sees them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from chimera_lab.data.graph import CLASSES, LABELS, GraphData, load_graphs
from chimera_lab.data.samples import Samples
from chimera_lab.training.files import read_json, write_json
from chimera_lab.training.graph_recipe import GraphRecipe
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Outcome, Task

if TYPE_CHECKING:
    from torchmetrics import Metric

SIZES = (
    "hidden_size", "num_hidden_layers", "state_size", "num_heads", "expand", "mlp_ratio", "head_layers", "dropout",
    "mixer", "arrangement", "local", "edge_messages", "norm", "final_norm", "gate", "conv", "injection", "resolvent",
    "normalize", "gamma", "shared_bias", "terms", "squared", "dag_roots", "init", "dt_min", "dt_max", "pooling",
    "eigenvectors",
)  # fmt: skip
FACTS = (
    "node_features", "edge_features", "level", "problem_type", "num_labels", "label_mean", "label_std",
)  # fmt: skip


class GraphTask(Task):
    """Labels of graphs or nodes: average precision, absolute error, or macro F1.

    Args:
        recipe: data and model.
    """

    def __init__(self, recipe: GraphRecipe):
        self.recipe = recipe
        self.recalled: dict[str, Any] | None = None
        self.own_data = True

    @property
    def tested_on(self) -> str:  # ty: ignore[incompatible-property-override]
        """The data set's part."""
        return self.recipe.part

    @cached_property
    def graphs(self) -> GraphData:
        """The data set, read when first used."""
        r = self.recipe
        targets = [name.strip() for name in r.targets.split(",")]
        return load_graphs(
            r.data, r.smiles, targets, r.problem, r.bad_smiles == "refuse", r.walks, r.eigenvectors,
            r.segments, undivided=not self.own_data,
        )  # fmt: skip

    @property
    def monitor(self) -> str:  # ty: ignore[incompatible-property-override]
        """The benchmark's metric for this kind of labels."""
        return {LABELS: "ap", CLASSES: "f1"}.get(self.graphs.problem_type, "mae")

    @property
    def larger_is_better(self) -> bool:  # ty: ignore[incompatible-property-override]
        """Errors are better when small."""
        return self.monitor != "mae"

    def train_samples(self) -> Samples:
        return self.graphs.train

    def plain_train_samples(self) -> Samples:
        return self.graphs.train

    def test_samples(self) -> Samples:
        if self.recipe.part == "test":
            return self.graphs.test
        if self.graphs.validation is None:
            raise ValueError(f"{self.recipe.data} has no validation part of its own; hold out a part with --validation")
        return self.graphs.validation

    def parts(self) -> tuple[Samples, Samples]:
        return self.graphs.train, self.graphs.test

    @property
    def facts(self) -> dict[str, Any]:
        """What the model must know of the data."""
        return self.recalled or {name: getattr(self.graphs, name) for name in FACTS}

    def remember(self, model: nn.Module, folder: Path) -> None:
        """Features, classes, and the labels' mean and deviation."""
        write_json(folder / "facts.json", self.facts)

    def recall(self, folder: Path, own_data: bool = True) -> None:
        self.own_data = own_data
        facts = read_json(folder / "facts.json", dict, "restore it, or train again")
        if missing := [name for name in FACTS if name not in facts]:
            raise ValueError(f"{folder / 'facts.json'} is damaged: it has no {missing[0]}; restore it, or train again")
        for name, here in self.facts.items():
            if not _fits(here, facts[name], name, facts["problem_type"]):
                raise ValueError(
                    f"{self.recipe.data} does not fit the run: {name} of its graphs is {here}, and {facts[name]} of "
                    f"those that the run was trained on"
                )
        self.recalled = facts

    def build_model(self, recipe: Recipe) -> nn.Module:
        import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
        from chimera_ssm.models import ChimeraForGraphs, ChimeraGraphConfig

        sizes = {name: getattr(recipe, name) for name in SIZES}
        positions = sizes["eigenvectors"] + recipe.walks  # ty: ignore[missing-attribute]
        return ChimeraForGraphs(ChimeraGraphConfig(**sizes, **self.facts, position_features=positions))

    def num_outputs(self) -> int:
        return self.facts["num_labels"]

    def outcome(self, model: nn.Module, batch: dict[str, Any]) -> Outcome:
        labels = batch["labels"]
        made = model(**batch)
        logits = made.logits.detach().float()
        return Outcome(made.loss, len(labels), logits, labels, {})

    def metrics(self) -> dict[str, Metric]:
        from chimera_lab.training.graph_metrics import Accuracy, AveragePrecision, MacroF1, MeanAbsoluteError

        if self.graphs.problem_type == LABELS:
            return {"ap": AveragePrecision()}
        if self.graphs.problem_type == CLASSES:
            classes = self.facts["num_labels"]
            return {"f1": MacroF1(classes), "accuracy": Accuracy(classes)}
        return {"mae": MeanAbsoluteError()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the form of `transformers`."""
        from transformers.utils import logging

        saved: Any = model
        logging.disable_progress_bar()
        saved.save_pretrained(folder)


def _fits(here: Any, there: Any, name: str, problem: str) -> bool:
    """Whether a model made for one kind of graphs takes another: fewer values of a feature, and fewer classes, do."""
    if name in ("label_mean", "label_std"):
        return True
    if isinstance(here, list) and isinstance(there, list):
        return len(here) == len(there) and all(a <= b for a, b in zip(here, there, strict=True))
    return here <= there if name == "num_labels" and problem == CLASSES else here == there
