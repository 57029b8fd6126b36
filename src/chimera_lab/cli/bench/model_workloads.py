"""Workloads to measure: whole image and text models of the base size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import chimera_ssm as chimera
from chimera_lab.cli.bench.workloads import Steps

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ImageStep:
    """Loss and gradients of a whole image classifier of the base size: ``mixer`` is ``"chimera"`` or ``"vit"``."""

    mixer: str
    image_size: int
    batch: int = 1

    def model(self) -> Any:
        """``chimera_image_base`` or ViT-B, which has 12 layers where Chimera has 23."""
        sizes = {"num_labels": 1000, "image_size": self.image_size}
        if self.mixer == "chimera":
            return chimera.create_model("chimera_image_base", **sizes)
        from chimera_lab import baselines  # loads transformers, which `chimera bench --help` does without

        return baselines.image_classifier(self.mixer, num_hidden_layers=12, **sizes)

    def build(self) -> Steps:
        import torch

        torch.manual_seed(0)
        model = self.model()
        images = torch.randn(self.batch, 3, self.image_size, self.image_size)
        labels = torch.randint(1000, (self.batch,))
        return Steps(lambda: model(pixel_values=images, labels=labels).loss, [*model.parameters()])


@dataclass(frozen=True)
class TextStep:
    """Loss of masked words by a whole model of the base size: ``mixer`` is ``"chimera"`` or ``"bert"``.

    As in training, 30 % of the words are masked and only these are decoded. BERT has no dropout here, since Chimera
    has none.
    """

    mixer: str
    length: int
    batch: int = 1

    def model(self) -> Any:
        """``chimera_text_base`` or BERT-B."""
        if self.mixer == "chimera":
            return chimera.create_model("chimera_text_base")
        from chimera_lab import baselines

        return baselines.text_model(self.mixer, num_hidden_layers=12, max_length=max(512, self.length), dropout=0.0)

    def build(self) -> Steps:
        import torch
        from torch.nn.functional import cross_entropy

        torch.manual_seed(0)
        model = self.model()
        words = torch.Generator().manual_seed(0)  # the same words for both models
        ids = torch.randint(1000, 30_000, (self.batch, self.length), generator=words)
        asked = torch.rand(ids.shape, generator=words) < 0.3

        def loss() -> Tensor:
            features = model.base_model(input_ids=ids).last_hidden_state
            return cross_entropy(model.cls(features[asked]), ids[asked])

        return Steps(loss, [*model.parameters()])
