"""Image models: patches as nodes of a grid, or of a line."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling, ImageClassifierOutputWithNoAttention
from transformers.utils import can_return_tuple

from chimera_ssm.models.base import ChimeraPreTrainedModel
from chimera_ssm.models.image.configuration import HEAD_SIZE, ChimeraImageConfig
from chimera_ssm.nn import S4, Block, Chimera, Hyena, Kind, OnGrid, OnLine, OnRaster, OnTwoLines
from chimera_ssm.nn.norm import RMSNorm
from chimera_ssm.topology import Grid, Line, Topology, UndirectedLine


class ChimeraImageLayer(GradientCheckpointingLayer, Block):
    """A block that can be recomputed in the backward pass."""


class ChimeraImagePreTrainedModel(ChimeraPreTrainedModel):
    """What image models have in common."""

    config_class = ChimeraImageConfig
    main_input_name = "pixel_values"
    input_modalities = "image"
    _no_split_modules = ["ChimeraImageLayer"]  # noqa: RUF012


class ChimeraImageModel(ChimeraImagePreTrainedModel):
    """Features of the patches of images of any size: patch embedding, blocks, norm. No position embeddings.

    Where a side is not a multiple of the patch size, the image is padded with zeros (the mean colour, after the image
    processor) at the bottom and on the right, so that every pixel counts.

    Shapes: ``pixel_values [B, channels, height, width]`` → ``last_hidden_state [B, T, hidden_size]``, the patches row
    after row, and ``pooler_output [B, hidden_size]``, their mean.
    """

    def __init__(self, config: ChimeraImageConfig):
        super().__init__(config)
        size = config.patch_size
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size, kernel_size=size, stride=size)
        last = max(1, config.num_hidden_layers - 1)
        self.layers = nn.ModuleList(
            ChimeraImageLayer(config.hidden_size, _mixer(config), config.drop_path * depth / last)
            for depth in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The patch embedding."""
        return self.patch_embedding

    @can_return_tuple
    def forward(
        self, pixel_values: Tensor, output_hidden_states: bool | None = None, **kwargs: Any
    ) -> BaseModelOutputWithPooling:
        """Features of each patch and their mean; ``hidden_states`` are the embedding and each block's output."""
        x, topology = self.patches(pixel_values)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        kept: list[Any] = []
        for layer in self.layers:
            kept += [x] if wanted else []
            x = layer(x, topology)
        hidden_states: Any = (*kept, x) if wanted else None
        x = self.norm(x)
        return BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=x.mean(dim=1), hidden_states=hidden_states)

    def patches(self, pixel_values: Tensor) -> tuple[Tensor, Topology]:
        """Embedded patches ``[B, T, hidden_size]``, row after row, and the topology they are nodes of."""
        channels, patch = self.config.num_channels, self.config.patch_size
        if pixel_values.dim() != 4 or pixel_values.shape[1] != channels:
            raise ValueError(
                f"pixel_values must have shape [batch, {channels}, height, width], found {list(pixel_values.shape)}"
            )
        if not len(pixel_values):
            raise ValueError("a batch must have an image, found none: leave empty ones out")
        height, width = pixel_values.shape[2:]
        if min(height, width) < patch:
            raise ValueError(
                f"an image must be at least {patch} × {patch} pixels, one patch; found {height} × {width}: enlarge it"
            )
        x = self.patch_embedding(F.pad(pixel_values.to(self.dtype), (0, -width % patch, 0, -height % patch)))
        name = "2d" if self.config.conv_window == "grid" else self.config.topology
        return x.flatten(2).mT, _topology(name, *x.shape[2:])


class ChimeraForImageClassification(ChimeraImagePreTrainedModel):
    """`ChimeraImageModel` with a linear layer on the mean of the patches.

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
        """Logits, and the loss if there are ``labels``: classes ``[B]``, or as ``config.problem_type`` says."""
        outputs = self.chimera(pixel_values, return_dict=True, **kwargs)
        logits = self.classifier(outputs.pooler_output)
        loss = None if labels is None else self.loss_function(labels, logits, self.config)
        return ImageClassifierOutputWithNoAttention(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


def _mixer(config: ChimeraImageConfig) -> nn.Module:
    if config.mixer == "s4":
        return S4(config.hidden_size, config.state_size, config.expand)
    if config.mixer == "hyena":
        return Hyena(config.hidden_size, config.expand)
    kinds: dict[str, Callable[..., Kind]] = {
        "2d": partial(OnGrid, sharing=config.sharing, normalize=config.normalize),
        "fwd_rev": OnTwoLines,
        "fwd": OnLine,
    }
    if config.conv_window == "grid":
        kinds |= {"fwd_rev": OnRaster, "fwd": partial(OnRaster, both=False)}
    return Chimera(
        config.hidden_size,
        config.num_heads or max(1, config.expand * config.hidden_size // HEAD_SIZE),
        config.state_size,
        config.expand,
        config.groups,
        kind=kinds[config.topology](injection=config.injection),
        conv=config.conv,
        resolvent=config.resolvent,
        init=config.init,
    )


@lru_cache(maxsize=32)
def _topology(name: str, height: int, width: int) -> Topology:
    """One object for each size, because what is found out about a topology is kept on it."""
    if name == "2d":
        return Grid((height, width))
    return UndirectedLine(height * width) if name == "fwd_rev" else Line(height * width)
