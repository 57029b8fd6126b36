"""Vision Transformers for comparisons, with attention, S4 or Hyena."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

from chimera_lab.baselines.hyena import Hyena
from chimera_lab.baselines.s4 import S4
from chimera_lab.baselines.sequence import SequenceMixer
from chimera_ssm.models import ChimeraImageConfig
from chimera_ssm.models.base import initial_range, initialize_missing, reset_own_parameters
from chimera_ssm.nn import DropPath, no_weight_decay


class FlexibleViTForImageClassification(ViTForImageClassification):
    """The Vision Transformer of `transformers`, with drop-path, for images of any size.

    Args:
        config: a `ViTConfig` with an additional field ``drop_path``, the probability of dropping the branches of the
            last layer; it rises linearly from 0 at the first layer.
    """

    def __init__(self, config: ViTConfig):
        super().__init__(config)
        last = max(1, config.num_hidden_layers - 1)
        for depth, layer in enumerate(self.vit.layers):
            # ViT applies its dropout to each residual branch, where drop-path belongs.
            layer.dropout = DropPath(getattr(config, "drop_path", 0.0) * depth / last)
        no_weight_decay(self)

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Parameters exempt from weight decay: the class token and position embeddings."""
        return [self.vit.embeddings.cls_token, self.vit.embeddings.position_embeddings]

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None, **kwargs: Any) -> Any:
        """Logits ``[B, num_labels]`` and the loss; position embeddings are interpolated to the image's size."""
        return super().forward(pixel_values, labels, **{"interpolate_pos_encoding": True, **kwargs})


class MixerViTConfig(ViTConfig):
    """The configuration of a Vision Transformer with another mixer in place of attention.

    Args:
        mixer: ``"s4"`` or ``"hyena"``.
        state_size: N of S4.
        drop_path: as in `FlexibleViTForImageClassification`.
        kwargs: arguments of `ViTConfig`.
    """

    model_type = "chimera_vit"

    mixer: str = "s4"
    state_size: int = 64
    drop_path: float = 0.0


class MixerViTForImageClassification(FlexibleViTForImageClassification):
    """A Vision Transformer with S4 or Hyena in place of attention; class token, positions, norms and MLPs are ViT's.

        x = x + mixer(LayerNorm(x))        x = x + MLP(LayerNorm(x))

    The mixer is bidirectional; the class token precedes the patches in raster order.
    """

    config_class = MixerViTConfig

    def __init__(self, config: MixerViTConfig):
        super().__init__(config)
        for layer in self.vit.layers:
            width = config.hidden_size
            mixer = S4(width, config.state_size, expand=1) if config.mixer == "s4" else Hyena(width, expand=1)
            layer.attention = _AttentionReplacement(mixer)
        self.post_init()
        no_weight_decay(self)

    def _init_weights(self, module: nn.Module) -> None:
        if not initialize_missing(module, reset_own_parameters):
            super()._init_weights(module)


class _AttentionReplacement(nn.Module):
    """A mixer with the interface of ViT's attention."""

    def __init__(self, mixer: SequenceMixer):
        super().__init__()
        self.mixer = mixer

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
        return self.mixer.mix(hidden_states), None


def vit_fields(sizes: ChimeraImageConfig) -> dict[str, Any]:
    """Fields of the configuration of a Vision Transformer with the sizes of an image model.

    Heads have 64 features, or fewer if there would be less than four heads; MLPs are four times as wide as the model.
    """
    width = sizes.hidden_size
    head = min(64, max(16, width // 4))
    return {
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
