"""What the loop asks of a kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from chimera_lab.data.samples import Samples

if TYPE_CHECKING:
    from torchmetrics import Metric

    from chimera_lab.training.recipe import Recipe


class Outcome(NamedTuple):
    """What a model made of a batch.

    Attributes:
        loss: a mean, differentiable.
        count: of what it is the mean: samples, tokens, …
        predictions: for the metrics.
        targets: for the metrics.
        running: figures to show while training, means over ``count``.
    """

    loss: Tensor
    count: int
    predictions: Tensor
    targets: Tensor
    running: dict[str, Tensor]


class Task(ABC):
    """A kind of data: its samples, its model, its loss and its metrics."""

    #: The metric that tells which weights are better, and whether a larger value is.
    monitor: str
    larger_is_better: bool = True

    #: What `test_samples` are, in one word.
    tested_on: str = "test"

    @abstractmethod
    def train_samples(self) -> Samples:
        """All training samples, augmented."""

    @abstractmethod
    def plain_train_samples(self) -> Samples:
        """The same samples as they are for evaluation: a part of them may be held out for validation."""

    @abstractmethod
    def test_samples(self) -> Samples:
        """All test samples."""

    @abstractmethod
    def parts(self) -> tuple[Samples, Samples]:
        """Training and test samples as they are in the data, which their `content` tells from others."""

    @abstractmethod
    def remember(self, model: nn.Module, folder: Path) -> None:
        """Write what the model depends on beside the recipe, such as the vocabulary, into a folder that exists."""

    @abstractmethod
    def recall(self, folder: Path, own_data: bool = True) -> None:
        """Take what `remember` wrote in place of what the data say now: a run stays what it was when it began.

        Args:
            folder: where it wrote.
            own_data: whether the data are the run's; of others everything is for testing that is not said to be for
                training.
        """

    @abstractmethod
    def build_model(self, recipe: Recipe) -> nn.Module:
        """The model of a recipe, its weights drawn from PyTorch's generator.

        The recipe is that of the run: an evaluation may have another, but the model stays what it was.
        """

    def num_outputs(self) -> int:
        """Classes or labels, where a number in the data decides on them; 0 where each has a name."""
        return 0

    def numbers_per_sample(self) -> int:
        """Numbers of a sample's hidden states in a layer, where settings decide on its size; 0 where the data do."""
        return 0

    @abstractmethod
    def outcome(self, model: nn.Module, batch: Any) -> Outcome:
        """Loss and predictions; ``model.training`` tells whether to regularise."""

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """Fresh metrics of an evaluation, updated with predictions and targets; the loss is there anyway."""

    @abstractmethod
    def save(self, model: nn.Module, folder: Path) -> None:
        """Write the model in the form in which its users load it."""

    def majority(self) -> dict[str, float]:
        """The metrics of guessing the class most frequent in training, whatever is shown."""
        raise ValueError(f"{type(self).__name__} has no classes to guess")
