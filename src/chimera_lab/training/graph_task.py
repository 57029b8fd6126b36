"""Prediction on graphs as a task."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from chimera_lab.baselines import matching_width  # and registers the baseline mixers
from chimera_lab.data.graph import load_graphs
from chimera_lab.data.graph_data import GraphData
from chimera_lab.data.molecules import CLASSES, LABELS, REGRESSION
from chimera_lab.data.samples import Samples
from chimera_lab.training.files import read_json, write_json
from chimera_lab.training.graph_metrics import Accuracy, AveragePrecision, LogSquaredError, MacroF1, MeanAbsoluteError
from chimera_lab.training.graph_recipe import GraphRecipe
from chimera_lab.training.saving import save_model
from chimera_lab.training.task import StepOutput, Task
from chimera_ssm.models import ChimeraForGraphs, ChimeraGraphConfig

if TYPE_CHECKING:
    from torchmetrics import Metric

FACTS = (
    "node_features", "edge_features", "level", "problem_type", "num_labels", "label_mean", "label_std",
)  # fmt: skip


class GraphTask(Task):
    """Labels of graphs or nodes: average precision, absolute or squared error, or macro F1.

    Args:
        recipe: data and model.
    """

    def __init__(self, recipe: GraphRecipe):
        self.recipe = recipe
        self.metadata: dict[str, Any] | None = None
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
        error = "log10_mse" if self.recipe.loss == "squared" else "mae"
        return {LABELS: "ap", CLASSES: "f1"}.get(self.graphs.problem_type, error)

    @property
    def larger_is_better(self) -> bool:  # ty: ignore[incompatible-property-override]
        """Errors are better when small."""
        return self.monitor not in ("mae", "log10_mse")

    def train_samples(self) -> Samples:
        return self.graphs.train

    def plain_train_samples(self) -> Samples:
        return self.graphs.train

    def test_samples(self) -> Samples:
        if self.recipe.part == "test":
            return self.graphs.test
        if self.graphs.validation is None:
            raise ValueError(f"{self.recipe.data} has no validation part; hold out a part with --validation")
        return self.graphs.validation

    def parts(self) -> tuple[Samples, Samples]:
        return self.graphs.train, self.graphs.test

    @property
    def facts(self) -> dict[str, Any]:
        """Properties of the data that determine the model."""
        return self.metadata or {name: getattr(self.graphs, name) for name in FACTS}

    def save_metadata(self, model: nn.Module, folder: Path) -> None:
        """Features, classes, and the mean and standard deviation of the labels."""
        write_json(folder / "facts.json", self.facts)

    def load_metadata(self, folder: Path, own_data: bool = True) -> None:
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
        self.metadata = facts

    def build_model(self, recipe: GraphRecipe) -> nn.Module:
        positions = {"eigenvectors": recipe.eigenvectors, "position_features": recipe.eigenvectors + recipe.walks}
        return ChimeraForGraphs(
            ChimeraGraphConfig(mixer=recipe.mixer, **recipe.model_values(), **self.facts, **positions)
        )

    def match_parameters(self, target: int) -> GraphRecipe:
        recipe = self.recipe
        self.facts  # noqa: B018  loads the data, outside of the meta device

        def count(width: int) -> int:
            with torch.device("meta"):
                model = self.build_model(replace(recipe, hidden_size=width))
            return sum(p.numel() for p in model.parameters())

        heads = recipe.num_heads
        steps = dict.fromkeys(("gps", "san", "exphormer", "bigbird"), heads) | dict.fromkeys(
            ("chimera", "graph_mamba", "gmn", "neural_walker", "neural_walker_chimera"),
            heads // gcd(heads, recipe.expand),
        )
        return replace(recipe, hidden_size=matching_width(count, target, steps.get(recipe.mixer, 1), recipe.mixer))

    def num_outputs(self) -> int:
        return self.facts["num_labels"]

    def step(self, model: nn.Module, batch: dict[str, Any]) -> StepOutput:
        labels = batch["labels"]
        output = model(**batch)
        loss = output.loss
        if self.recipe.loss == "squared" and self.facts["problem_type"] == REGRESSION:
            scale = 1.0 if self.facts["label_std"] is None else labels.new_tensor(self.facts["label_std"])
            loss = ((output.logits - labels) / scale)[~labels.isnan()].square().mean()
        return StepOutput(loss, len(labels), output.logits.detach().float(), labels, {})

    def metrics(self) -> dict[str, Metric]:
        if self.graphs.problem_type == LABELS:
            return {"ap": AveragePrecision()}
        if self.graphs.problem_type == CLASSES:
            classes = self.facts["num_labels"]
            return {"f1": MacroF1(classes), "accuracy": Accuracy(classes)}
        error = {"log10_mse": LogSquaredError()} if self.recipe.loss == "squared" else {}
        return {"mae": MeanAbsoluteError(), **error}

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the format of `transformers`."""
        save_model(model, folder)


def _fits(here: Any, there: Any, name: str, problem: str) -> bool:
    """Whether a model trained on graphs with the fact ``there`` accepts ``here``: fewer feature values or classes."""
    if name in ("label_mean", "label_std"):
        return True
    if isinstance(here, list) and isinstance(there, list):
        return len(here) == len(there) and all(a <= b for a, b in zip(here, there, strict=True))
    return here <= there if name == "num_labels" and problem == CLASSES else here == there
