"""The settings of image classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chimera_lab.training.model_settings import model_settings
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting
from chimera_ssm.models.image.configuration import ChimeraImageConfig

_Model: Any = model_settings(
    ChimeraImageConfig, exclude=("mixer", "expand", "groups", "initializer_range"),
    hidden_size=64, num_hidden_layers=4, patch_size=1, state_size=16,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ImageRecipe(_Model, Recipe):
    """Classification of images, as grids of patches."""

    kind: ClassVar[str] = "image"

    if TYPE_CHECKING:  # type checkers do not see the fields of _Model

        def __init__(self, **settings: Any) -> None: ...

    data: str = setting(
        "digits", "digits, mazes:12, pathfinder:32, fashion-mnist, imagenet, or a folder (train/<class>/<image>)",
        at_eval=True, place=("digits", "fashion-mnist", "imagenet"),
    )  # fmt: skip
    image_size: int = setting(8, "side that images are resized to, in pixels", least=1, at_eval=True)
    num_channels: int = setting(1, "3 for colour, 1 for greyscale", least=1, most=3)
    mean: float = setting(0.5, "mean of the pixels in [0, 1], which is subtracted")
    std: float = setting(0.5, "standard deviation of the pixels, by which they are divided", above=0)
    eval_crop: float = setting(
        1.0, "fraction of the shorter side kept in evaluation; 1: the whole image", above=0, most=1, at_eval=True
    )

    mixer: Literal["chimera", "s4", "hyena", "vit", "vit_conv", "s4_vit", "hyena_vit"] = setting(
        "chimera", "Chimera or a baseline; …_vit: in ViT's layers; vit_conv: ViT with Chimera's convolution"
    )

    crop_scale: float = setting(1.0, "smallest area of a random crop, as a fraction; 1: no crops", above=0, most=1)
    flip: bool = setting(False, "mirror images with probability 1/2")
    shift: int = setting(0, "largest random shift, in pixels", least=0)
    randaugment_magnitude: float = setting(0.0, "magnitude of RandAugment, out of 10; 0: none", least=0, most=10)
    randaugment_std: float = setting(0.0, "standard deviation of the magnitude", least=0)
    randaugment_layers: int = setting(2, "operations of RandAugment", least=1)
    erase: float = setting(0.0, "probability of erasing a rectangle", least=0, most=1)
    mixup: float = setting(0.0, "α of MixUp; 0: none", least=0)
    cutmix: float = setting(0.0, "α of CutMix; 0: none", least=0)
    label_smoothing: float = setting(0.0, "fraction of the target distributed over all classes", least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} must be a multiple of patch_size, found {self.patch_size}")
