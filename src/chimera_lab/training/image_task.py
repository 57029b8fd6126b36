"""Image classification as a task."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional as F

from chimera_lab.baselines import image_classifier, match_parameters
from chimera_lab.data.augment import Augmentation, EvalTransform, mix_batch
from chimera_lab.data.image import ImageData, Transformed, load_images
from chimera_lab.data.samples import Samples
from chimera_lab.training.files import read_json, write_json
from chimera_lab.training.image_recipe import ImageRecipe
from chimera_lab.training.saving import save_model
from chimera_lab.training.task import StepOutput, Task
from chimera_ssm.models import ChimeraImageProcessor

if TYPE_CHECKING:
    from torchmetrics import Metric


class ImageTask(Task):
    """Classes of images: soft cross-entropy, top-1 and top-5.

    Args:
        recipe: data, augmentations and model.
    """

    monitor = "top1"

    def __init__(self, recipe: ImageRecipe):
        self.recipe = recipe
        self.metadata: tuple[str, ...] | None = None

    @cached_property
    def images(self) -> ImageData:
        """The data set, read when first used."""
        return load_images(self.recipe.data, self.recipe.num_channels, self.metadata)

    def train_samples(self) -> Transformed:
        r = self.recipe
        augmentation = Augmentation(
            r.image_size, r.mean, r.std, r.crop_scale, r.flip, r.shift,
            r.randaugment_magnitude, r.randaugment_std, r.randaugment_layers, r.erase,
        )  # fmt: skip
        return Transformed(self.images.train, augmentation)

    def plain_train_samples(self) -> Transformed:
        return Transformed(self.images.train, self._eval_transform())

    def test_samples(self) -> Transformed:
        return Transformed(self.images.test, self._eval_transform())

    def save_metadata(self, model: nn.Module, folder: Path) -> None:
        """The names of the classes, in order."""
        write_json(folder / "classes.json", self.images.names)

    def parts(self) -> tuple[Samples, Samples]:
        return self.images.train, self.images.test

    def load_metadata(self, folder: Path, own_data: bool = True) -> None:
        self.metadata = tuple(read_json(folder / "classes.json", list, "restore it, or train again"))

    def _eval_transform(self) -> EvalTransform:
        return EvalTransform(self.recipe.image_size, self.recipe.mean, self.recipe.std, self.recipe.eval_crop)

    def build_model(self, recipe: ImageRecipe) -> nn.Module:
        return image_classifier(**self._model_arguments(recipe))

    def match_parameters(self, target: int) -> ImageRecipe:
        matched = match_parameters(target=target, **self._model_arguments(self.recipe))
        return replace(self.recipe, hidden_size=matched["hidden_size"])

    def _model_arguments(self, recipe: ImageRecipe) -> dict[str, Any]:
        """Arguments of `image_classifier`."""
        names = dict(enumerate(self.images.names))
        label2id = {name: label for label, name in names.items()}
        return {**recipe.model_values(), "mixer": recipe.mixer, "id2label": names, "label2id": label2id}

    def numbers_per_sample(self) -> int:
        return (self.recipe.image_size // self.recipe.patch_size) ** 2 * self.recipe.hidden_size

    def step(self, model: nn.Module, batch: dict[str, Tensor]) -> StepOutput:
        images, labels = batch["pixel_values"], batch["labels"]
        targets: Tensor = labels
        smoothing = 0.0
        if model.training:
            targets = F.one_hot(labels, len(self.images.names)).float()
            images, targets = mix_batch(images, targets, self.recipe.mixup, self.recipe.cutmix)
            smoothing = self.recipe.label_smoothing
        logits = model(pixel_values=images).logits.float()
        loss = F.cross_entropy(logits, targets, label_smoothing=smoothing)
        top1 = (logits.detach().argmax(-1) == (targets.argmax(-1) if model.training else targets)).float().mean()
        return StepOutput(loss, len(labels), logits.detach(), labels, {"top1": top1})

    def metrics(self) -> dict[str, Metric]:
        from torchmetrics.classification import MulticlassAccuracy

        count = len(self.images.names)
        return {
            f"top{k}": MulticlassAccuracy(count, top_k=k, average="micro", validate_args=False)
            for k in (1, 5)
            if k < count
        }

    def save(self, model: nn.Module, folder: Path) -> None:
        """In the format of `transformers`, with an image processor that prepares images as in evaluation."""
        save_model(model, folder)
        r = self.recipe
        how: dict[str, Any] = {"image_mean": [r.mean] * r.num_channels, "image_std": [r.std] * r.num_channels}
        if r.eval_crop < 1:
            how |= {"size": {"shortest_edge": self._eval_transform().resized}, "do_center_crop": True}
            how |= {"crop_size": {"height": r.image_size, "width": r.image_size}}
        else:
            how |= {"size": {"height": r.image_size, "width": r.image_size}}
        ChimeraImageProcessor(num_channels=r.num_channels, **how).save_pretrained(folder)
