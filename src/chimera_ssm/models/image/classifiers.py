"""Image classifiers of equal size with different mixers, for comparisons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, ViTConfig, ViTForImageClassification

from chimera_ssm.models.base import draw_missing, draw_mixer
from chimera_ssm.models.image.configuration import CHOICES, HEAD_SIZE, ChimeraImageConfig
from chimera_ssm.models.image.modeling import ChimeraForImageClassification
from chimera_ssm.models.width import chimera_step, initial_range, matching_width
from chimera_ssm.nn import S4, DropPath, Hyena, mark_undecayed
from chimera_ssm.nn.sequence import SequenceMixer

MIXERS = (*map(str, CHOICES["mixer"]), "vit", "s4_vit", "hyena_vit")


def image_classifier(mixer: str, **sizes: Any) -> PreTrainedModel:
    """A classifier ready to train, called as ``model(pixel_values=…, labels=…)`` on images of any size.

    Args:
        mixer: ``"chimera"``; ``"s4"`` or ``"hyena"`` in Chimera's block; ``"vit"`` for a Vision Transformer;
            ``"s4_vit"`` or ``"hyena_vit"`` for one with S4 or Hyena in place of attention.
        sizes: fields of `ChimeraImageConfig`; those that a mixer has no use for are ignored.
    """
    _check_mixer(mixer)
    if mixer.endswith("vit"):
        return _vit(ChimeraImageConfig(**sizes), mixer.removesuffix("vit").removesuffix("_"))
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


class MixerViTConfig(ViTConfig):
    """What defines a Vision Transformer with another mixer in place of attention.

    Args:
        mixer: ``"s4"`` or ``"hyena"``.
        state_size: N of S4.
        drop_path: as in `FlexibleViTForImageClassification`.
        kwargs: what a `ViTConfig` takes.
    """

    model_type = "chimera_vit"

    mixer: str = "s4"
    state_size: int = 64
    drop_path: float = 0.0


class MixerViTForImageClassification(FlexibleViTForImageClassification):
    """A Vision Transformer with S4 or Hyena in place of attention; class token, positions, norms and MLPs are ViT's.

        x = x + mixer(LayerNorm(x))        x = x + MLP(LayerNorm(x))

    The mixer reads the class token and then the patches, row after row, both ways.
    """

    config_class = MixerViTConfig

    def __init__(self, config: MixerViTConfig):
        super().__init__(config)
        for layer in self.vit.layers:
            width = config.hidden_size
            mixer = S4(width, config.state_size, expand=1) if config.mixer == "s4" else Hyena(width, expand=1)
            layer.attention = _InPlaceOfAttention(mixer)
        self.post_init()
        mark_undecayed(self)

    def _init_weights(self, module: nn.Module) -> None:
        if not draw_missing(module, draw_mixer):
            super()._init_weights(module)


class _InPlaceOfAttention(nn.Module):
    """A mixer called as ViT calls its attention."""

    def __init__(self, mixer: SequenceMixer):
        super().__init__()
        self.mixer = mixer

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
        return self.mixer.mix(hidden_states), None


def _vit(sizes: ChimeraImageConfig, mixer: str) -> FlexibleViTForImageClassification:
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
    if mixer:
        return MixerViTForImageClassification(MixerViTConfig(**fields, mixer=mixer, state_size=sizes.state_size))
    return FlexibleViTForImageClassification(ViTConfig(**fields))


def _check_mixer(mixer: str) -> None:
    if mixer not in MIXERS:
        raise ValueError(f"mixer must be one of {', '.join(MIXERS)}; found {mixer!r}")
