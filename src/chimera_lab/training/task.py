"""The interface between the training loop and a kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from chimera_lab.data.samples import Samples

if TYPE_CHECKING:
    from torchmetrics import Metric


class StepOutput(NamedTuple):
    """The result of a forward pass.

    Attributes:
        loss: differentiable mean over ``count``.
        count: number of samples, tokens or labels in the mean.
        predictions: input of the metrics.
        targets: input of the metrics.
        running: metrics to show during training, means over ``count``.
    """

    loss: Tensor
    count: int
    predictions: Tensor
    targets: Tensor
    running: dict[str, Tensor]


class Task(ABC):
    """A kind of data: its samples, model, loss and metrics.

    Args:
        recipe: the settings of data and model.
    """

    #: The metric by which weights are chosen, and whether larger values are better.
    monitor: str
    larger_is_better: bool = True

    #: The name of `test_samples` in results.
    tested_on: str = "test"

    @abstractmethod
    def __init__(self, recipe: Any): ...

    @abstractmethod
    def train_samples(self) -> Samples:
        """The augmented training samples."""

    @abstractmethod
    def plain_train_samples(self) -> Samples:
        """The training samples without augmentation, from which validation data are held out."""

    @abstractmethod
    def test_samples(self) -> Samples:
        """The test samples."""

    @abstractmethod
    def parts(self) -> tuple[Samples, Samples]:
        """Unprocessed training and test samples, whose `content` identifies the data."""

    @abstractmethod
    def save_metadata(self, model: nn.Module, folder: Path) -> None:
        """Write what the model depends on besides the recipe, such as the vocabulary, into an existing folder."""

    @abstractmethod
    def load_metadata(self, folder: Path, own_data: bool = True) -> None:
        """Read what `save_metadata` wrote; it takes precedence over the current data.

        Args:
            folder: the folder that was written.
            own_data: whether the data are those of the run. Of other data, everything that is not marked as training
                data is used for testing.
        """

    @abstractmethod
    def build_model(self, recipe: Any) -> nn.Module:
        """The model of a recipe, with weights drawn from PyTorch's default generator.

        The recipe is passed separately because an evaluation may change the settings of the data, but not the model.
        """

    @abstractmethod
    def match_parameters(self, target: int) -> Any:
        """The recipe with its width changed so that the model has ``target`` parameters, within 3 %."""

    def num_outputs(self) -> int:
        """Number of classes or labels, if a number in the data determines it; 0 if they are listed by name."""
        return 0

    def numbers_per_sample(self) -> int:
        """Size of a sample's hidden states per layer, if the settings determine it; 0 if the data do."""
        return 0

    @abstractmethod
    def step(self, model: nn.Module, batch: Any) -> StepOutput:
        """Forward pass and loss; regularization is applied if ``model.training``."""

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """New metrics for an evaluation, to be updated with predictions and targets; the loss is added to them."""

    @abstractmethod
    def save(self, model: nn.Module, folder: Path) -> None:
        """Write the model in the format in which users load it."""

    def majority(self) -> dict[str, float]:
        """The metrics of always predicting the most frequent training class."""
        raise ValueError(f"{type(self).__name__} has no majority class")
