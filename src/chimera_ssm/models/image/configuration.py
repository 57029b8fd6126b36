"""What defines an image model."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from chimera_ssm.nn.kinds import SHARING
from chimera_ssm.nn.mixer import INITS

#: Features of a head, unless the number of heads is given.
HEAD_SIZE = 128

CHOICES = {
    "mixer": ("chimera", "s4", "hyena"),
    "conv_window": ("topology", "grid"),
    "topology": ("2d", "fwd_rev", "fwd"),
    "sharing": SHARING,
    "normalize": ("mean", "sqrt"),
    "injection": (None, "hold", "step", "projected"),
    "resolvent": ("exact", "identity"),
    "init": INITS,
}


class ChimeraImageConfig(PreTrainedConfig):
    """Sizes and choices of an image model; the defaults are those of ``chimera_image_base``.

    Args:
        hidden_size: features of a patch.
        num_hidden_layers: blocks.
        num_channels: channels of the image.
        image_size: side that images are resized to unless one asks for another; the model takes any.
        patch_size: side of a patch.
        state_size: N, the size of a state.
        num_heads: H, the number of heads; ``max(1, expand · hidden_size // 128)``, heads of 128 features, if ``None``.
        expand: inner width in units of ``hidden_size``.
        groups: G, groups of heads that share B and C.
        topology: how patches are connected: ``"2d"``, the four DAGs of the grid; ``"fwd_rev"``, patches as a line both
            ways, row after row; ``"fwd"``, one way.
        sharing: which of the four DAGs share B and C, see `OnGrid`.
        normalize: normalization of the grid's weights, see `dag_adjacency`.
        injection: β of B̄ = β B: ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; if
            ``None``, hold where the weights allow it, else step.
        conv: whether V, B and C go through a local convolution.
        conv_window: window of the convolution: ``"topology"``, the topology's own, 3 × 3 patches on ``"2d"``, 7 along
            the line, centred, on ``"fwd_rev"``, 4 along the line, causal, on ``"fwd"``; or ``"grid"``, 3 × 3 patches on
            each, so that only the resolvents differ. With it ``"fwd"`` is not causal, see `OnRaster`.
        resolvent: the matrix L: ``"exact"``, or ``"identity"`` for L = I, for ablations.
        init: initial values, ``"average"`` or ``"paper"``, see `Chimera`; with ``"paper"``, weights have the deviation
            ``initializer_range`` at any width.
        drop_path: probability of dropping the last block in training; rises linearly from the first block, with 0.
        mixer: ``"chimera"``, or a baseline in its place, ``"s4"`` or ``"hyena"``. These read patches row after row and
            heed neither topology nor heads.
        initializer_range: standard deviation of initial weights of projections at 768 features; with ``hidden_size``
            features it is multiplied by √(768 / hidden_size), so that layers of any width start alike.
        kwargs: what all configurations of `transformers` take, such as ``num_labels`` and ``id2label``.
    """

    model_type = "chimera_image"

    hidden_size: int = 768
    num_hidden_layers: int = 23
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 16
    state_size: int = 64
    num_heads: int | None = None
    expand: int = 2
    groups: int = 1
    topology: str = "2d"
    sharing: str = "diagonal"
    normalize: str = "mean"
    injection: str | None = None
    conv: bool = True
    conv_window: str = "topology"
    resolvent: str = "exact"
    init: str = "average"
    drop_path: float = 0.0
    mixer: str = "chimera"
    initializer_range: float = 0.02

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}; found {getattr(self, name)!r}")
        sizes = ["hidden_size", "num_hidden_layers", "num_channels", "image_size", "patch_size", "state_size"]
        for name in [*sizes, "expand", "groups", *(["num_heads"] if self.num_heads is not None else [])]:
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{name} must be an integer of at least 1, found {size!r}")
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must be from 0 to below 1, found {self.drop_path}")
