"""Image classifiers of equal size with different mixers, for comparisons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel, ViTConfig

from chimera_lab.baselines.hyena import Hyena
from chimera_lab.baselines.local_attention import LocalConvViTConfig, LocalConvViTForImageClassification
from chimera_lab.baselines.matching import chimera_step, matching_width
from chimera_lab.baselines.s4 import S4
from chimera_lab.baselines.vit import (
    FlexibleViTForImageClassification,
    MixerViTConfig,
    MixerViTForImageClassification,
    vit_fields,
)
from chimera_ssm.models import ChimeraForImageClassification, ChimeraImageConfig
from chimera_ssm.models.image.configuration import HEAD_SIZE
from chimera_ssm.models.mixers import known_mixers, register_mixer

register_mixer("image", "s4", lambda config: S4(config.hidden_size, config.state_size, config.expand))
register_mixer("image", "hyena", lambda config: Hyena(config.hidden_size, config.expand))


def image_classifier(mixer: str, **sizes: Any) -> PreTrainedModel:
    """A classifier ready to train, called as ``model(pixel_values=…, labels=…)`` on images of any size.

    Args:
        mixer: ``"chimera"``; ``"s4"`` or ``"hyena"`` in Chimera's block; ``"vit"`` for a Vision Transformer;
            ``"vit_conv"`` for one with Chimera's local convolution; ``"s4_vit"`` or ``"hyena_vit"`` for one with S4 or
            Hyena in place of attention.
        sizes: fields of `ChimeraImageConfig`; those that do not apply to a mixer are ignored.
    """
    _check_mixer(mixer)
    if mixer in _TRANSFORMERS:
        return _TRANSFORMERS[mixer](ChimeraImageConfig(**sizes))
    return ChimeraForImageClassification(ChimeraImageConfig(**sizes, mixer=mixer))


def match_parameters(mixer: str, target: int, **sizes: Any) -> dict[str, Any]:
    """Sizes with ``hidden_size`` changed so that the classifier has ``target`` parameters, within 3 %.

    Args:
        mixer: as for `image_classifier`.
        target: number of parameters.
        sizes: fields of `ChimeraImageConfig`.

    Returns:
        The sizes, for `image_classifier`.
    """
    _check_mixer(mixer)
    step = chimera_step(**sizes, head_size=HEAD_SIZE) if mixer == "chimera" else 1

    def count(width: int) -> int:
        with torch.device("meta"):
            return image_classifier(mixer, **{**sizes, "hidden_size": width}).num_parameters()

    return {**sizes, "hidden_size": matching_width(count, target, step, mixer)}


def _vit(sizes: ChimeraImageConfig) -> PreTrainedModel:
    return FlexibleViTForImageClassification(ViTConfig(**vit_fields(sizes)))


def _vit_conv(sizes: ChimeraImageConfig) -> PreTrainedModel:
    return LocalConvViTForImageClassification(LocalConvViTConfig(**vit_fields(sizes)))


def _mixer_vit(mixer: str, sizes: ChimeraImageConfig) -> PreTrainedModel:
    config = MixerViTConfig(**vit_fields(sizes), mixer=mixer, state_size=sizes.state_size)
    return MixerViTForImageClassification(config)


_TRANSFORMERS: dict[str, Callable[[ChimeraImageConfig], PreTrainedModel]] = {
    "vit": _vit,
    "vit_conv": _vit_conv,
    "s4_vit": partial(_mixer_vit, "s4"),
    "hyena_vit": partial(_mixer_vit, "hyena"),
}


def _check_mixer(mixer: str) -> None:
    known = *known_mixers("image"), *_TRANSFORMERS
    if mixer not in known:
        raise ValueError(f"mixer must be one of {', '.join(known)}; found {mixer!r}")
