"""Fine-tuning on GLUE as a task."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional as F

import chimera_lab.baselines  # noqa: F401  (registers our classes with transformers)
from chimera_lab.data.glue import TASKS, Texts, Tokenised, load_glue
from chimera_lab.data.samples import Samples
from chimera_lab.training.files import reading, require
from chimera_lab.training.glue_recipe import GlueRecipe
from chimera_lab.training.matthews import Matthews
from chimera_lab.training.saving import save_tokenizer, save_with_tokenizer
from chimera_lab.training.task import StepOutput, Task

if TYPE_CHECKING:
    from torchmetrics import Metric


class GlueTask(Task):
    """A GLUE task: cross-entropy or squared error, and the task's metrics.

    Args:
        recipe: task, data, and where the model comes from.
    """

    tested_on = "dev"

    def __init__(self, recipe: GlueRecipe):
        self.recipe, self.glue = recipe, TASKS[recipe.glue]
        self.monitor = self.glue.metrics[0]
        self.metadata: Path | None = None

    @cached_property
    def texts(self) -> tuple[Texts, Texts]:
        """Training and development set, read when first used."""
        return load_glue(self.recipe.glue, self.recipe.data)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the pretrained model."""
        from transformers import AutoTokenizer

        folder = self.metadata or _model_folder(self.recipe.from_)
        with reading(folder, "restore its tokenizer"):
            return AutoTokenizer.from_pretrained(folder, local_files_only=True)

    @cached_property
    def _train(self) -> Tokenised:
        return Tokenised(self.texts[0], self.tokenizer, self.recipe.length)

    def train_samples(self) -> Tokenised:
        return self._train

    def plain_train_samples(self) -> Tokenised:
        return self._train

    def test_samples(self) -> Tokenised:
        return Tokenised(self.texts[1], self.tokenizer, self.recipe.length)

    def save_metadata(self, model: nn.Module, folder: Path) -> None:
        """The tokenizer and the model's configuration: the run that they come from may be moved."""
        described: Any = model
        described.config.save_pretrained(folder)
        save_tokenizer(self.tokenizer, folder)

    def load_metadata(self, folder: Path, own_data: bool = True) -> None:
        require(folder, "config.json", "tokenizer.json", "tokenizer_config.json")
        self.metadata = folder

    def parts(self) -> tuple[Samples, Samples]:
        return self.train_samples(), self.test_samples()

    def build_model(self, recipe: GlueRecipe) -> nn.Module:
        """The pretrained body with a new head; the head of another task with as many classes is kept.

        After `load_metadata` the model is built from its configuration, without weights.
        """
        from transformers import AutoConfig, AutoModelForSequenceClassification
        from transformers.utils import logging

        if self.metadata is not None:
            config = AutoConfig.from_pretrained(self.metadata, local_files_only=True)
            return AutoModelForSequenceClassification.from_config(config)
        names = dict(enumerate(self.glue.classes or ("score",)))
        before = logging.get_verbosity()
        logging.set_verbosity_error()  # no warning that the head is new
        logging.disable_progress_bar()
        try:
            folder = _model_folder(recipe.from_)
            with reading(folder, "restore it, or start from another run"):
                return AutoModelForSequenceClassification.from_pretrained(
                    folder,
                    id2label=names,
                    label2id={name: number for number, name in names.items()},
                    problem_type="regression" if self.glue.is_regression else "single_label_classification",
                    ignore_mismatched_sizes=True,
                    local_files_only=True,
                )
        finally:
            logging.set_verbosity(before)

    def match_parameters(self, target: int) -> GlueRecipe:
        """The recipe itself: the size of a pretrained model is fixed, and must match."""
        found = sum(p.numel() for p in self.build_model(self.recipe).parameters() if p.requires_grad)
        if abs(found - target) > 0.03 * target:
            raise ValueError(
                f"the model of {self.recipe.from_} has {found:,} parameters, not {target:,} within 3 %: "
                f"start from one that has"
            )
        return self.recipe

    def step(self, model: nn.Module, batch: dict[str, Tensor]) -> StepOutput:
        inputs, labels = {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]
        logits = model(**inputs).logits.float()
        if self.glue.is_regression:
            scores = logits.squeeze(-1)
            return StepOutput(F.mse_loss(scores, labels), len(labels), scores.detach(), labels, {})
        guesses = logits.detach().argmax(-1)
        right = (guesses == labels).float().mean()
        return StepOutput(F.cross_entropy(logits, labels), len(labels), guesses, labels, {"accuracy": right})

    def metrics(self) -> dict[str, Metric]:
        from torchmetrics import PearsonCorrCoef, SpearmanCorrCoef
        from torchmetrics.classification import BinaryF1Score, MulticlassAccuracy

        made: dict[str, Any] = {
            "accuracy": lambda: MulticlassAccuracy(len(self.glue.classes), average="micro"),
            "f1": BinaryF1Score,
            "matthews": Matthews,
            "pearson": PearsonCorrCoef,
            "spearman": SpearmanCorrCoef,
        }
        return {name: made[name]() for name in self.glue.metrics}

    def majority(self) -> dict[str, float]:
        """The metrics of predicting the most frequent class, or the mean score."""
        train, test = (texts.labels for texts in self.texts)
        guess = train.mean() if self.glue.is_regression else train.mode().values
        metrics = self.metrics()
        for metric in metrics.values():
            metric.update(guess.expand_as(test), test)
        return {name: float(metric.compute()) for name, metric in metrics.items()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the format of `transformers`, with the tokenizer."""
        save_with_tokenizer(model, self.tokenizer, folder)


def _model_folder(start: str) -> Path:
    """The folder of a run's model, or the folder itself if it contains a model."""
    if not start:
        raise ValueError("which model should be trained on? name a finished run of text/… with --from RUN")
    folder = Path(start).expanduser()
    for place in (folder / "model", folder):
        if (place / "config.json").is_file():
            return place
    if (folder / "config.yaml").is_file():
        raise ValueError(f"{folder} is a run without a model/ yet: finish it with chimera train --resume {folder}")
    raise ValueError(f"{folder} is neither a run nor a folder with a model: it has no model/ and no config.json")
