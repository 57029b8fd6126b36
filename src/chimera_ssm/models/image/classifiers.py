"""Image classifiers of equal size with different mixers, for comparisons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, ViTConfig, ViTForImageClassification

from chimera_ssm.models.image.configuration import CHOICES, ChimeraImageConfig
from chimera_ssm.models.image.modeling import ChimeraForImageClassification
from chimera_ssm.models.width import chimera_step, initial_range, matching_width
from chimera_ssm.nn import DropPath, mark_undecayed

MIXERS = (*map(str, CHOICES["mixer"]), "vit")


def image_classifier(mixer: str, **sizes: Any) -> PreTrainedModel:
    """A classifier ready to train, called as ``model(pixel_values=…, labels=…)`` on images of any size.

    Args:
        mixer: ``"chimera"``, ``"s4"``, ``"hyena"``, or ``"vit"`` for a Vision Transformer.
        sizes: fields of `ChimeraImageConfig`; those that a mixer has no use for are ignored.
    """
    _check_mixer(mixer)
    if mixer == "vit":
        return _vit(ChimeraImageConfig(**sizes))
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
    step = chimera_step(**sizes) if mixer == "chimera" else 1

    def count(width: int) -> int:
        with torch.device("meta"):
            return image_classifier(mixer, **{**sizes, "hidden_size": width}).num_parameters()

    return {**sizes, "hidden_size": matching_width(count, target, step, mixer)}


class FlexibleViTForImageClassification(ViTForImageClassification):
    """The Vision Transformer of `transformers`, with drop-path, for images of any size.

    Args:
        config: a `ViTConfig`; ``drop_path`` in it is the probability of dropping the last layer's branches, which rises
            linearly from the first layer, with 0.
    """

    def __init__(self, config: ViTConfig):
        super().__init__(config)
        last = max(1, config.num_hidden_layers - 1)
        for depth, layer in enumerate(self.vit.layers):
            # ViT's dropout is applied to each branch before it is added: the place for drop-path.
            layer.dropout = DropPath(getattr(config, "drop_path", 0.0) * depth / last)
        mark_undecayed(self)

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Parameters that weight decay should leave alone: the class token and position embeddings."""
        return [self.vit.embeddings.cls_token, self.vit.embeddings.position_embeddings]

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None, **kwargs: Any) -> Any:
        """Logits ``[B, num_labels]`` and the loss; position embeddings are interpolated to the image's size."""
        return super().forward(pixel_values, labels, **{"interpolate_pos_encoding": True, **kwargs})


def _vit(sizes: ChimeraImageConfig) -> FlexibleViTForImageClassification:
    """Heads of 64 features, smaller ones where there would be fewer than four, and MLPs four times as wide."""
    width = sizes.hidden_size
    head = min(64, max(16, width // 4))
    fields: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": sizes.num_hidden_layers,
        "num_attention_heads": max(1, width // head),
        "head_dim": head,
        "intermediate_size": 4 * width,
        "image_size": sizes.image_size,
        "patch_size": sizes.patch_size,
        "num_channels": sizes.num_channels,
        "initializer_range": initial_range(sizes),
        "drop_path": sizes.drop_path,
        "id2label": sizes.id2label,
        "label2id": sizes.label2id,
    }
    return FlexibleViTForImageClassification(ViTConfig(**fields))


def _check_mixer(mixer: str) -> None:
    if mixer not in MIXERS:
        raise ValueError(f"mixer must be one of {', '.join(MIXERS)}; found {mixer!r}")
