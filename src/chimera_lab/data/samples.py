"""The interface of data sets to the training loop, and fixed subsets of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from chimera_lab.data.random import generator


class Samples(ABC):
    """A data set; a sample is a function of its index and of PyTorch's default generator.

    The loader seeds the generator before each sample, so that augmentations may draw from it.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sample(self, index: int) -> Any:
        """One sample, augmented or not."""

    @property
    def labels(self) -> Tensor | None:
        """The class of each sample, if there are classes; subsets are then stratified."""
        return None

    def content(self, index: int) -> bytes:
        """Bytes that identify a sample, the same on any machine."""
        raise NotImplementedError

    def collate(self, samples: Sequence[Any]) -> Any:
        """A batch of samples; by default each field of the samples' dictionaries is stacked."""
        return torch.utils.data.default_collate(list(samples))


class Part(Samples):
    """Some samples of a data set, by index."""

    def __init__(self, whole: Samples, indices: Tensor):
        self.whole, self.indices = whole, indices

    def __len__(self) -> int:
        return len(self.indices)

    def sample(self, index: int) -> Any:
        return self.whole.sample(int(self.indices[index]))

    def content(self, index: int) -> bytes:
        return self.whole.content(int(self.indices[index]))

    @property
    def labels(self) -> Tensor | None:
        return None if self.whole.labels is None else self.whole.labels[self.indices]

    def collate(self, samples: Sequence[Any]) -> Any:
        return self.whole.collate(samples)


def contents(samples: Samples, most: int = 500) -> Iterator[bytes]:
    """Bytes that identify a data set: its size, its classes, and some hundred evenly spaced samples."""
    count = len(samples)
    yield str(count).encode()
    if samples.labels is not None:
        yield samples.labels.numpy().tobytes()
    step = max(1, count // most)
    yield from (samples.content(n) for n in range((count - 1) % step, count, step))  # includes the last one


def choose(samples: Samples, count: int, purpose: str) -> Tensor:
    """A fixed choice of ``count`` samples, sorted; stratified if there are classes.

    Args:
        samples: the data set.
        count: number of samples to choose.
        purpose: choices for different purposes are independent.
    """
    if not 0 < count <= len(samples):
        raise ValueError(f"cannot choose {count} of {len(samples)} samples for {purpose}; ask for fewer")
    order = torch.randperm(len(samples), generator=generator("choose", purpose))
    if samples.labels is not None:
        order = order[_interleaved(samples.labels[order])]
    return order[:count].sort().values


def split(samples: Samples, count: int, purpose: str) -> tuple[Part, Part]:
    """A fixed choice of ``count`` samples, and the others."""
    chosen = choose(samples, count, purpose)
    rest = torch.ones(len(samples), dtype=torch.bool)
    rest[chosen] = False
    return Part(samples, chosen), Part(samples, rest.nonzero().flatten())


def _interleaved(labels: Tensor) -> Tensor:
    """An order in which every prefix has the classes in proportion."""
    place = torch.empty(len(labels), dtype=torch.float64)
    for label in labels.unique():
        of_class = (labels == label).nonzero().flatten()
        place[of_class] = (torch.arange(len(of_class), dtype=torch.float64) + 0.5) / len(of_class)
    return place.argsort(stable=True)
