"""The demo's comparisons: Chimera, the same network without paths, and a standard baseline, for each kind of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chimera_lab.recipes import find_recipe
from chimera_lab.training.kinds import count_parameters, match_parameters
from chimera_lab.training.recipe import Recipe

OURS, IDENTITY = "Chimera", "L = I"
_FOLDERS = {OURS: "chimera", IDENTITY: "no-paths"}


def folder_name(model: str) -> str:
    """The folder of a model's run."""
    return _FOLDERS.get(model, model.lower())


@dataclass(frozen=True)
class Comparison:
    """Three models on the same data, trained for the same number of steps.

    Attributes:
        name: name of its folder.
        title: the data and the topology.
        question: the task, the metric and its unit, in sentences.
        recipe: name of the recipe that all models start from.
        changes: settings that differ from the recipe, for all models.
        identity_changes: tuned settings of Chimera with L = I.
        baseline: name of the standard model.
        baseline_changes: its mixer and tuned settings.
        metric: the test metric that is compared.
        what: the metric in a few words.
        example_note: what the map shows.
        example: input whose influence map the report shows; a test sample if omitted.
        percent: whether the metric is a fraction, of which more is better; otherwise it is an error.
    """

    name: str
    title: str
    question: str
    recipe: str
    changes: Mapping[str, Any]
    identity_changes: Mapping[str, Any]
    baseline: str
    baseline_changes: Mapping[str, Any]
    metric: str
    what: str
    example_note: str
    example: str | None = None
    percent: bool = field(default=True, kw_only=True)

    def recipes(self) -> dict[str, Recipe]:
        """The recipe of each model; the baseline's width gives it as many parameters as Chimera, within 3 %."""
        ours = replace(find_recipe(self.recipe), **self.changes)
        identity = replace(ours, **{"resolvent": "identity", **self.identity_changes})
        baseline = replace(ours, **self.baseline_changes)
        return {OURS: ours, IDENTITY: identity, self.baseline: match_parameters(baseline, count_parameters(ours))}

    def format_metric(self, value: float) -> str:
        """A value of the metric as text."""
        return f"{value:.1%}" if self.percent else f"{value:.2f} Å²"


# The learning rate of each model was chosen beforehand on a tenth of the training data that was held out, with the
# budget used here, one seed and as many rates for each model; the test data were not used. Validation metrics:
#   mazes (%, rates 0.001, 0.003, 0.006)       Chimera 81.8, 89.3, 93.2  L = I 72.2, 73.1, 73.4  ViT 52.1, 52.1, 50.0
#   words (%, rates 0.0015, 0.003, 0.006)      Chimera 39.5, 43.9, 44.9  L = I 39.4, 43.3, 44.5
#   words (%, rates 0.001, 0.003, 0.006)       BERT 21.5, 25.3, 20.4
#   molecules (Å², rates 0.002, 0.004, 0.008)  Chimera 5.31, 5.20, 5.48  L = I 5.38, 5.22, 5.39  GPS 5.15, 5.96, 6.79
# BERT has no dropout, which made it worse (0.003: 23.6 %).
COMPARISONS = (
    Comparison(
        "mazes",
        "Mazes: pixels on a grid",
        "Are the two red cells of a maze connected by a path of white cells? Half of the mazes are, so guessing is "
        "right in 50 %. The figure is the percentage of 2,000 test mazes that are answered correctly: more is better.",
        "image/mazes",
        {
            "data": "mazes:10",
            "image_size": 10,
            "hidden_size": 44,
            "epochs": 1,
            "warmup_epochs": 0.1,
            "eval_every": 125,
            "lr": 6e-3,
        },
        {"lr": 6e-3},
        "ViT",
        {"mixer": "vit", "lr": 3e-3},
        "top1",
        "mazes right",
        "Here the maze of the pictures and, beside it, what influences the framed cell.",
    ),
    Comparison(
        "words",
        "Words: a sentence is a line",
        "In Python's own documentation some words are hidden; which? The figure is the percentage of hidden words of "
        "the test text that are predicted exactly: more is better.",
        "text/pydoc",
        {
            "length": 64,
            "hidden_size": 96,
            "num_hidden_layers": 2,
            "epochs": 5,
            "warmup_epochs": 0.5,
            "eval_every": 58,
            "lr": 6e-3,
        },
        {"lr": 6e-3},
        "BERT",
        {"mixer": "bert", "lr": 3e-3, "dropout": 0.0},
        "accuracy",
        "hidden words right",
        "[MASK] stands for a hidden word, [CLS] and [SEP] for the beginning and the end; ## continues a word.",
    ),
    Comparison(
        "molecules",
        "Molecules: atoms on their own graph",
        "How large is the polar surface of a molecule, in square ångströms (Å²)? The figure is the mean absolute error "
        "on about 1,000 test molecules, most of which have 10 to 100 Å²: less is better.",
        "graph/nci",
        {"lr": 4e-3},
        {"lr": 4e-3},
        "GPS",
        {"mixer": "gps", "lr": 2e-3},
        "mae",
        "mean error in Å²",
        "Here aspirin, whose polar surface is 63.6 Å²; atoms are named by their element and a number.",
        "CC(=O)OC1=CC=CC=C1C(=O)O",
        percent=False,
    ),
)
