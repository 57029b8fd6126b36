"""The text model: tokens are the nodes of an undirected line."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from chimera_ssm.models.base import ChimeraPreTrainedModel, build_blocks, chimera_mixer
from chimera_ssm.models.mixers import register_mixer
from chimera_ssm.models.text.configuration import ChimeraTextConfig
from chimera_ssm.nn import Block, OnTwoLines, OnUndirectedLine, RMSNorm
from chimera_ssm.topology import UndirectedLine, batch


class ChimeraTextLayer(GradientCheckpointingLayer, Block):
    """A block that can be recomputed in the backward pass."""


class ChimeraTextPreTrainedModel(ChimeraPreTrainedModel):
    """The base class of text models."""

    config_class = ChimeraTextConfig
    main_input_name = "input_ids"
    input_modalities = "text"
    _no_split_modules = ["ChimeraTextLayer"]  # noqa: RUF012


class EmbeddedTokens(ChimeraTextPreTrainedModel):
    """The beginning of a text model: the embedding of tokens, and the norm after it."""

    embeddings: nn.Module
    embedding_norm: nn.Module

    def get_input_embeddings(self) -> nn.Module:
        """The token embedding."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embedding."""
        self.embeddings = value

    def _embed(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("pass either input_ids or inputs_embeds, found both or neither")
        if input_ids is not None:
            if input_ids.dim() != 2:
                raise ValueError(f"input_ids must have shape [batch, tokens], found {list(input_ids.shape)}")
            inputs_embeds = self._tokens(input_ids)
        assert inputs_embeds is not None
        if inputs_embeds.dim() != 3 or inputs_embeds.shape[-1] != self.config.hidden_size:
            raise ValueError(
                f"inputs_embeds must have shape [batch, tokens, {self.config.hidden_size}], "
                f"found {list(inputs_embeds.shape)}"
            )
        if 0 in inputs_embeds.shape:
            raise ValueError(
                f"a batch must have a text, and a text a token, found {list(inputs_embeds.shape[:2])} for "
                "[batch, tokens]: leave out empty texts"
            )
        return self.embedding_norm(inputs_embeds)

    def _tokens(self, input_ids: Tensor) -> Tensor:
        try:
            return self.embeddings(input_ids)
        except IndexError:  # on a CPU; a GPU raises its own error
            raise ValueError(
                f"input_ids must be from 0 to below vocab_size {self.config.vocab_size}, found {input_ids.min()} to "
                f"{input_ids.max()}: use the tokenizer that was saved with the model"
            ) from None


class ChimeraTextModel(EmbeddedTokens):
    """Features of the tokens of texts of any length: embedding, norm, blocks, norm.

    There are no embeddings of positions or token types: ``token_type_ids`` are ignored, and ``[SEP]`` separates the
    sentences of a pair.

    Shapes: ``input_ids [B, T]`` → ``last_hidden_state [B, T, hidden_size]`` and ``pooler_output [B, hidden_size]``, the
    mean over the tokens of each text.
    """

    def __init__(self, config: ChimeraTextConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embedding_norm = RMSNorm(config.hidden_size)
        self.layers = build_blocks(config, ChimeraTextLayer)
        self.norm = RMSNorm(config.hidden_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        seq_idx: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        """Features of each token and their mean; ``hidden_states`` are the embedding and each block's output.

        Args:
            input_ids: tokens, ``[B, T]``.
            attention_mask: 1 at tokens, 0 at padding, ``[B, T]``. Padding on either side does not change the result.
            inputs_embeds: embedded tokens ``[B, T, hidden_size]``, in place of ``input_ids``.
            seq_idx: for packed texts, the index of each token's text, ``[B, T]``, as returned by
                ``DataCollatorWithFlattening(return_seq_idx=True, return_position_ids=False)``. Texts do not mix.
            output_hidden_states: whether to return ``hidden_states``.
            kwargs: other outputs of tokenizers and trainers, which are ignored.
        """
        x = self._embed(input_ids, inputs_embeds)
        check_inputs(x, attention_mask, seq_idx, kwargs.get("position_ids"))
        # Packed texts are one row of nodes: a batch of lines.
        shape, rows = x.shape, x.shape if seq_idx is None else (1, -1, x.shape[-1])
        lines = [UndirectedLine(length) for length in ([shape[1]] if seq_idx is None else text_lengths(seq_idx))]
        topology = lines[0] if seq_idx is None else batch(lines)
        node_mask = None if attention_mask is None else attention_mask.bool().reshape(rows[:2])
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        kept: list[Any] = []
        for layer in self.layers:
            kept += [x] if wanted else []
            x = layer(x.reshape(rows), topology, None, node_mask).reshape(shape)
        hidden_states: Any = (*kept, x) if wanted else None
        x = self.norm(x)
        pooled: Any = _mean(x, attention_mask) if seq_idx is None else None
        return BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, hidden_states=hidden_states)


def check_inputs(x: Tensor, attention_mask: Tensor | None, seq_idx: Tensor | None, position_ids: Any) -> None:
    """Raise a ValueError if inputs do not have the shape of ``x [B, T, hidden_size]``, or there are positions."""
    for name, given in (("attention_mask", attention_mask), ("seq_idx", seq_idx)):
        if given is not None and given.shape != x.shape[:2]:
            raise ValueError(f"{name} must have shape {list(x.shape[:2])}, found {list(given.shape)}")
    if position_ids is not None:
        raise ValueError(
            "the model has no positions: leave position_ids out; packed texts are separated by seq_idx, see "
            "DataCollatorWithFlattening(return_seq_idx=True, return_position_ids=False)"
        )


def _mean(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Mean over tokens, ``[B, hidden_size]``; zero for a text without tokens."""
    if attention_mask is None:
        return x.mean(dim=1)
    present = attention_mask.bool().unsqueeze(-1)
    return x.masked_fill(~present, 0).sum(dim=1) / present.sum(dim=1).clamp(min=1)


def text_lengths(seq_idx: Tensor) -> tuple[int, ...]:
    """Lengths of the texts of all rows: a text ends where the index changes, and at the end of its row."""
    starts = F.pad(seq_idx[:, 1:] != seq_idx[:, :-1], (1, 0), value=True).flatten().nonzero().flatten()
    return tuple(starts.diff(append=starts.new_tensor([seq_idx.numel()])).tolist())


def _chimera(config: ChimeraTextConfig) -> nn.Module:
    kind = (OnTwoLines if config.variant == "dag" else OnUndirectedLine)(injection=config.injection)
    return chimera_mixer(config, kind, config.num_heads)


register_mixer("text", "chimera", _chimera)
