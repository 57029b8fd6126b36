"""The image model: patches are the nodes of a grid, or of a line in raster order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling, ImageClassifierOutputWithNoAttention
from transformers.utils import can_return_tuple

from chimera_ssm.models.base import ChimeraPreTrainedModel, build_blocks, chimera_mixer
from chimera_ssm.models.image.configuration import HEAD_SIZE, ChimeraImageConfig
from chimera_ssm.models.labels import check_labels
from chimera_ssm.models.mixers import register_mixer
from chimera_ssm.nn import Block, Kind, OnGrid, OnLine, OnRaster, OnTwoLines, OnUndirectedGrid, RMSNorm
from chimera_ssm.topology import Grid, Line, Topology, UndirectedLine


class ChimeraImageLayer(GradientCheckpointingLayer, Block):
    """A block that can be recomputed in the backward pass."""


class ChimeraImagePreTrainedModel(ChimeraPreTrainedModel):
    """The base class of image models."""

    config_class = ChimeraImageConfig
    main_input_name = "pixel_values"
    input_modalities = "image"
    _no_split_modules = ["ChimeraImageLayer"]  # noqa: RUF012


class ChimeraImageModel(ChimeraImagePreTrainedModel):
    """Features of the patches of images of any size: patch embedding, blocks, norm. No position embeddings.

    If a side is not a multiple of the patch size, the image is padded with zeros (the mean colour, after the image
    processor) at the bottom and on the right, so that every pixel is used.

    Shapes: ``pixel_values [B, channels, height, width]`` → ``last_hidden_state [B, T, hidden_size]``, patches in raster
    order, and ``pooler_output [B, hidden_size]``, their mean or maximum, as ``config.pooling`` says.
    """

    def __init__(self, config: ChimeraImageConfig):
        super().__init__(config)
        size = config.patch_size
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size, kernel_size=size, stride=size)
        self.layers = build_blocks(config, ChimeraImageLayer)
        self.norm = RMSNorm(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The patch embedding."""
        return self.patch_embedding

    @can_return_tuple
    def forward(
        self, pixel_values: Tensor, output_hidden_states: bool | None = None, **kwargs: Any
    ) -> BaseModelOutputWithPooling:
        """Features of each patch and of the image; ``hidden_states`` are the embedding and each block's output."""
        x, topology = self.patches(pixel_values)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        kept: list[Any] = []
        for layer in self.layers:
            kept += [x] if wanted else []
            x = layer(x, topology)
        hidden_states: Any = (*kept, x) if wanted else None
        x = self.norm(x)
        pooled = x.mean(dim=1) if self.config.pooling == "mean" else x.amax(dim=1)
        return BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, hidden_states=hidden_states)

    def patches(self, pixel_values: Tensor) -> tuple[Tensor, Topology]:
        """Embedded patches ``[B, T, hidden_size]`` in raster order, and the topology whose nodes they are."""
        channels, patch = self.config.num_channels, self.config.patch_size
        if pixel_values.dim() != 4 or pixel_values.shape[1] != channels:
            raise ValueError(
                f"pixel_values must have shape [batch, {channels}, height, width], found {list(pixel_values.shape)}"
            )
        if not pixel_values.shape[0]:
            raise ValueError("a batch must have an image, found none: leave out empty batches")
        height, width = pixel_values.shape[2:]
        if min(height, width) < patch:
            raise ValueError(
                f"an image must be at least {patch} × {patch} pixels, one patch; found {height} × {width}: enlarge it"
            )
        x = self.patch_embedding(F.pad(pixel_values.to(self.dtype), (0, -width % patch, 0, -height % patch)))
        return x.flatten(2).mT, _topology(self.config, *x.shape[2:])


class ChimeraForImageClassification(ChimeraImagePreTrainedModel):
    """`ChimeraImageModel` with a linear layer on the pooled patches.

    Shapes: ``pixel_values [B, channels, height, width]`` → ``logits [B, num_labels]``.
    """

    def __init__(self, config: ChimeraImageConfig):
        super().__init__(config)
        self.chimera = ChimeraImageModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)  # ty: ignore[invalid-argument-type]
        self.post_init()

    @can_return_tuple
    def forward(
        self, pixel_values: Tensor, labels: Tensor | None = None, **kwargs: Any
    ) -> ImageClassifierOutputWithNoAttention:
        """Logits, and the loss if ``labels`` are given: classes ``[B]``, or according to ``config.problem_type``."""
        if labels is not None:
            check_labels(labels, self.config)
        outputs = self.chimera(pixel_values, return_dict=True, **kwargs)
        logits = self.classifier(outputs.pooler_output)
        loss = None if labels is None else self.loss_function(labels, logits, self.config)
        return ImageClassifierOutputWithNoAttention(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


def _chimera(config: ChimeraImageConfig) -> nn.Module:
    kinds: dict[str, Callable[..., Kind]] = {
        "2d": partial(OnGrid, sharing=config.sharing, normalize=config.normalize),
        "undirected": partial(OnUndirectedGrid, gamma=config.gamma),
        "fwd_rev": OnTwoLines,
        "fwd": OnLine,
    }
    if config.conv_window == "grid":
        kinds |= {"fwd_rev": OnRaster, "fwd": partial(OnRaster, both=False)}
    num_heads = config.num_heads or max(1, config.expand * config.hidden_size // HEAD_SIZE)
    return chimera_mixer(config, kinds[config.topology](injection=config.injection), num_heads)


def _topology(config: Any, height: int, width: int) -> Topology:
    if config.topology in ("2d", "undirected") or config.conv_window == "grid":
        return Grid((height, width))
    return (UndirectedLine if config.topology == "fwd_rev" else Line)(height * width)


register_mixer("image", "chimera", _chimera)
