"""Fine-tuning on GLUE as the loop sees it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.data.glue import TASKS, Texts, Tokenised, load_glue
from chimera_lab.data.samples import Samples
from chimera_lab.training.files import reading, require
from chimera_lab.training.glue_recipe import GlueRecipe
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.task import Outcome, Task
from chimera_lab.training.text_task import save_tokenizer, save_with_tokenizer

if TYPE_CHECKING:
    from torchmetrics import Metric


class GlueTraining(Task):
    """A task of GLUE: cross-entropy or squared error, and the task's own metrics.

    Args:
        recipe: task, data, and where the model comes from.
    """

    tested_on = "dev"

    def __init__(self, recipe: GlueRecipe):
        self.recipe, self.glue = recipe, TASKS[recipe.glue]
        self.monitor = self.glue.metrics[0]
        self.recalled: Path | None = None

    @cached_property
    def texts(self) -> tuple[Texts, Texts]:
        """Training and development set, read when first used."""
        return load_glue(self.recipe.glue, self.recipe.data)

    @cached_property
    def tokenizer(self) -> Any:
        """That of the model to start from."""
        from transformers import AutoTokenizer

        import chimera_lab.baselines  # noqa: F401  (registers our classes)

        folder = self.recalled or _model_folder(self.recipe.from_)
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

    def remember(self, model: nn.Module, folder: Path) -> None:
        """The tokenizer and the model's sizes: the run that they come from may be moved."""
        described: Any = model
        described.config.save_pretrained(folder)
        save_tokenizer(self.tokenizer, folder)

    def recall(self, folder: Path, own_data: bool = True) -> None:
        require(folder, "config.json", "tokenizer.json", "tokenizer_config.json")
        self.recalled = folder

    def parts(self) -> tuple[Samples, Samples]:
        return self.train_samples(), self.test_samples()

    def build_model(self, recipe: Recipe) -> nn.Module:
        """The trained body with a new head; a head of another task with as many classes is kept.

        The model of a run that is recalled has yet to be given its weights.
        """
        from transformers import AutoConfig, AutoModelForSequenceClassification
        from transformers.utils import logging

        import chimera_lab.baselines  # noqa: F401  (registers our classes)

        if self.recalled is not None:
            config = AutoConfig.from_pretrained(self.recalled, local_files_only=True)
            return AutoModelForSequenceClassification.from_config(config)
        names = dict(enumerate(self.glue.classes or ("score",)))
        before = logging.get_verbosity()
        logging.set_verbosity_error()  # that the head is new is what we want
        logging.disable_progress_bar()
        try:
            folder = _model_folder(cast(GlueRecipe, recipe).from_)
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

    def outcome(self, model: nn.Module, batch: dict[str, Tensor]) -> Outcome:
        inputs, labels = {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]
        logits = model(**inputs).logits.float()
        if self.glue.is_regression:
            scores = logits.squeeze(-1)
            return Outcome(F.mse_loss(scores, labels), len(labels), scores.detach(), labels, {})
        guesses = logits.detach().argmax(-1)
        right = (guesses == labels).float().mean()
        return Outcome(F.cross_entropy(logits, labels), len(labels), guesses, labels, {"accuracy": right})

    def metrics(self) -> dict[str, Metric]:
        from torchmetrics import PearsonCorrCoef, SpearmanCorrCoef
        from torchmetrics.classification import BinaryF1Score, MulticlassAccuracy

        from chimera_lab.training.matthews import Matthews

        made: dict[str, Any] = {
            "accuracy": lambda: MulticlassAccuracy(len(self.glue.classes), average="micro"),
            "f1": BinaryF1Score,
            "matthews": Matthews,
            "pearson": PearsonCorrCoef,
            "spearman": SpearmanCorrCoef,
        }
        return {name: made[name]() for name in self.glue.metrics}

    def majority(self) -> dict[str, float]:
        """Of scores, the mean in place of the most frequent."""
        train, test = (texts.labels for texts in self.texts)
        guess = train.mean() if self.glue.is_regression else train.mode().values
        metrics = self.metrics()
        for metric in metrics.values():
            metric.update(guess.expand_as(test), test)
        return {name: float(metric.compute()) for name, metric in metrics.items()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the form of `transformers`, with the tokenizer."""
        save_with_tokenizer(model, self.tokenizer, folder)


def _model_folder(start: str) -> Path:
    """Where the model of a run is, or of a folder that holds one."""
    if not start:
        raise ValueError("which model should be trained on? name a finished run of text/… with --from RUN")
    folder = Path(start).expanduser()
    for place in (folder / "model", folder):
        if (place / "config.json").is_file():
            return place
    if (folder / "config.yaml").is_file():
        raise ValueError(f"{folder} is a run without a model/ yet: finish it with chimera train --resume {folder}")
    raise ValueError(f"{folder} is neither a run nor a folder with a model: it has no model/ and no config.json")
