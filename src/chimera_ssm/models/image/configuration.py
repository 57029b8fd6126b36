"""The configuration of image models."""

from __future__ import annotations

from typing import Any

from chimera_ssm.adjacency.graph import check_gamma
from chimera_ssm.models.configuration import ChimeraConfig
from chimera_ssm.nn.kinds import SHARING

#: Features of a head, unless the number of heads is given.
HEAD_SIZE = 128


class ChimeraImageConfig(ChimeraConfig):
    """Sizes and choices of an image model; the defaults are those of ``chimera_image_base``.

    Args:
        num_channels: channels of the image.
        image_size: side to which the image processor resizes images by default; the model accepts any size.
        patch_size: side of a patch.
        topology: connections of the patches: ``"2d"``, the four DAGs of the grid; ``"undirected"``, the grid as a
            graph, with the exact resolvent over all paths; ``"fwd_rev"``, a forward and a backward line in raster
            order; ``"fwd"``, the forward line only.
        sharing: which of the four DAGs share B and C, see `OnGrid`.
        normalize: normalization of the weights of the four DAGs, see `dag_adjacency`.
        gamma: bound of the row sums of A on the undirected grid, between 0 and 1.
        conv_window: window of the convolution: ``"topology"``: 3 × 3 patches for ``"2d"`` and ``"undirected"``, 7 along
            the line, centred, for ``"fwd_rev"``, 4 along the line, causal, for ``"fwd"``; or ``"grid"``: always 3 × 3
            patches, so that only the resolvents differ. ``"fwd"`` is then not causal, see `OnRaster`.
        pooling: how an image is represented by its patches: ``"mean"``, or ``"max"`` if a few patches decide, whose
            share of the mean would depend on the size of the image.
        kwargs: see `ChimeraConfig`; ``num_heads`` is ``max(1, expand · hidden_size // 128)`` if ``None``. The baselines
            use neither topology nor heads.
    """

    model_type = "chimera_image"
    kind = "image"
    _choices = {  # noqa: RUF012
        "conv_window": ("topology", "grid"),
        "topology": ("2d", "undirected", "fwd_rev", "fwd"),
        "sharing": SHARING,
        "normalize": ("mean", "sqrt"),
        "pooling": ("mean", "max"),
    }
    _sizes = ("num_channels", "image_size", "patch_size")

    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 16
    topology: str = "2d"
    sharing: str = "diagonal"
    normalize: str = "mean"
    gamma: float = 0.95
    conv_window: str = "topology"
    pooling: str = "mean"

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        check_gamma(self.gamma, 1.0)
