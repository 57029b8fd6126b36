"""The settings of image classification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import setting

if TYPE_CHECKING:
    from chimera_lab.training.image_task import ImageTask


@dataclass(frozen=True, kw_only=True)
class ImageRecipe(Recipe):
    """Classification of images, as grids of patches."""

    kind: ClassVar[str] = "image"

    data: str = setting(
        "digits", "digits, fashion-mnist, imagenet, or a folder (train/<class>/<image>)", at_eval=True,
        place=("digits", "fashion-mnist", "imagenet"),
    )  # fmt: skip
    image_size: int = setting(8, "side that images are brought to, in pixels", least=1, at_eval=True)
    num_channels: int = setting(1, "3 for colours, 1 for shades of grey", least=1, most=3)
    mean: float = setting(0.5, "subtracted from pixels in [0, 1]")
    std: float = setting(0.5, "pixels are then divided by this", above=0)
    eval_crop: float = setting(
        1.0, "part of the shorter side kept in evaluation; 1: all of the image", above=0, most=1, at_eval=True
    )

    mixer: Literal["chimera", "s4", "hyena", "vit", "s4_vit", "hyena_vit"] = setting(
        "chimera", "what mixes the patches; …_vit: in ViT's layers"
    )
    hidden_size: int = setting(64, "features of a patch", least=1)
    num_hidden_layers: int = setting(4, "blocks", least=1)
    patch_size: int = setting(1, "side of a patch, in pixels", least=1)
    state_size: int = setting(16, "N of Chimera", least=1)
    num_heads: int | None = setting(None, "H of Chimera; none: heads of 128 features", least=1)
    topology: Literal["2d", "fwd_rev", "fwd"] = setting("2d", "four grid DAGs, a line both ways, or one way")
    sharing: Literal["none", "complete", "row", "diagonal"] = setting("diagonal", "which DAGs share B and C")
    normalize: Literal["mean", "sqrt"] = setting("mean", "of the grid's weights")
    injection: Literal["hold", "step", "projected"] | None = setting(None, "β of B̄ = β B; none: hold where it can be")
    conv: bool = setting(True, "whether V, B and C of Chimera go through a local convolution")
    conv_window: Literal["topology", "grid"] = setting("topology", "the topology's own, or 3 × 3 patches on each")
    resolvent: Literal["exact", "identity"] = setting("exact", "exact, or L = I for ablations")
    init: Literal["average", "paper"] = setting("average", "initial values: C · B near one, or the paper's")
    drop_path: float = setting(
        0.0, "probability of dropping the last block, rising from 0 at the first", least=0, below=1
    )

    crop_scale: float = setting(1.0, "least part of an image's area to crop; 1: no random crops", above=0, most=1)
    flip: bool = setting(False, "mirror half of the images")
    shift: int = setting(0, "largest random shift, in pixels", least=0)
    randaugment_magnitude: float = setting(0.0, "of RandAugment, out of 10; 0: none", least=0, most=10)
    randaugment_std: float = setting(0.0, "standard deviation of the magnitude", least=0)
    randaugment_layers: int = setting(2, "operations of RandAugment", least=1)
    erase: float = setting(0.0, "probability of erasing a rectangle", least=0, most=1)
    mixup: float = setting(0.0, "α of MixUp; 0: none", least=0)
    cutmix: float = setting(0.0, "α of CutMix; 0: none", least=0)
    label_smoothing: float = setting(0.0, "part of the target shared by all classes", least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} must be a multiple of patch_size, found {self.patch_size}")

    def task(self) -> ImageTask:
        from chimera_lab.training.image_task import ImageTask

        return ImageTask(self)

    def with_parameters(self, target: int) -> ImageRecipe:
        from chimera_lab.baselines import match_parameters

        sizes = match_parameters(target=target, **self.task().sizes(self))
        return replace(self, hidden_size=sizes["hidden_size"])
