"""BERT and ViT with Chimera's local convolution, to tell what the convolution contributes from what the mixer does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, PreTrainedModel, ViTConfig

from chimera_lab.baselines.vit import FlexibleViTForImageClassification
from chimera_ssm.models.base import initialize_missing
from chimera_ssm.nn import no_weight_decay
from chimera_ssm.nn.kinds import OnGrid, OnTwoLines
from chimera_ssm.nn.local_conv import LocalConv
from chimera_ssm.topology import Grid, Topology, UndirectedLine


class ConvolvedProjection(nn.Module):
    """Queries, keys or values of attention, convolved over their neighbourhood.

        y = conv(W x + b)

    Args:
        linear: the projection W, b.
        conv: a convolution over its output features.

    Attributes:
        topology: of the last T tokens; tokens before them, such as a class token, are not convolved.
        present: True where there is a token, ``[Z, T]``; ``None`` without padding.

    Shapes: ``x [Z, T, D]`` → ``[Z, T, D]``.
    """

    def __init__(self, linear: nn.Linear, conv: LocalConv):
        super().__init__()
        self.linear, self.conv = linear, conv
        self.topology: Topology | None = None
        self.present: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        assert self.topology is not None  # set by the model before each forward pass
        x = self.linear(x)
        if self.present is not None:
            x = x.masked_fill(~self.present.unsqueeze(-1), 0)
        first = x.shape[1] - self.topology.num_nodes
        mixed = self.conv(x[:, first:], self.topology)
        return torch.cat([x[:, :first], mixed], dim=1)


class _WithLocalConv(PreTrainedModel):
    """A model of `transformers` with convolutions that initialize themselves."""

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, LocalConv):
            initialize_missing(module, lambda _: module.reset_parameters())
        else:
            super()._init_weights(module)


class LocalConvBertConfig(BertConfig):
    """The configuration of BERT with convolved queries, keys and values."""

    model_type = "chimera_local_bert"


class LocalConvBertForMaskedLM(_WithLocalConv, BertForMaskedLM):
    """BERT whose queries, keys and values go through the convolution of Chimera's text models, over 7 tokens."""

    config_class = LocalConvBertConfig

    def __init__(self, config: LocalConvBertConfig):
        super().__init__(config)
        self._projections: list[ConvolvedProjection] = []
        layers: Any = self.bert.encoder.layer
        for layer in layers:
            attention = layer.attention.self
            for name in ("query", "key", "value"):
                projection = ConvolvedProjection(getattr(attention, name), OnTwoLines().conv(config.hidden_size))
                setattr(attention, name, projection)
                self._projections.append(projection)
        self.bert.register_forward_pre_hook(self._prepare, with_kwargs=True)
        self.post_init()
        no_weight_decay(self)

    def _prepare(self, bert: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Give the projections the line of tokens and the padding of this forward pass."""
        ids, mask = args[0] if args else kwargs["input_ids"], kwargs.get("attention_mask")
        for projection in self._projections:
            projection.topology = UndirectedLine(ids.shape[1])
            projection.present = None if mask is None else mask.bool()


class LocalConvViTConfig(ViTConfig):
    """The configuration of a Vision Transformer with convolved queries, keys and values."""

    model_type = "chimera_local_vit"

    drop_path: float = 0.0


class LocalConvViTForImageClassification(_WithLocalConv, FlexibleViTForImageClassification):
    """A Vision Transformer whose queries, keys and values go through Chimera's convolution, over 3 × 3 patches.

    Those of the class token are not convolved.
    """

    config_class = LocalConvViTConfig

    def __init__(self, config: LocalConvViTConfig):
        super().__init__(config)
        self._projections: list[ConvolvedProjection] = []
        for layer in self.vit.layers:
            for name in ("q_proj", "k_proj", "v_proj"):
                linear = getattr(layer.attention, name)
                projection = ConvolvedProjection(linear, OnGrid().conv(linear.out_features))
                setattr(layer.attention, name, projection)
                self._projections.append(projection)
        self.post_init()
        no_weight_decay(self)

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None, **kwargs: Any) -> Any:
        """As in `FlexibleViTForImageClassification`."""
        patches: Any = self.vit.embeddings.patch_embeddings
        shape = [side // patch for side, patch in zip(pixel_values.shape[-2:], patches.patch_size, strict=True)]
        for projection in self._projections:
            projection.topology = Grid(shape)
        return super().forward(pixel_values, labels, **kwargs)
