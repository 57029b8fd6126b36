"""Text models: tokens as nodes of a line that is read both ways."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from chimera_ssm.models.base import ChimeraPreTrainedModel
from chimera_ssm.models.text.configuration import ChimeraTextConfig
from chimera_ssm.nn import M2, Block, Chimera, MLPMixer, OnTwoLines, OnUndirectedLine
from chimera_ssm.nn.norm import RMSNorm
from chimera_ssm.topology import Topology, UndirectedLine, batch


class ChimeraTextLayer(GradientCheckpointingLayer, Block):
    """A block that can be recomputed in the backward pass."""


class ChimeraTextPreTrainedModel(ChimeraPreTrainedModel):
    """What text models have in common."""

    config_class = ChimeraTextConfig
    main_input_name = "input_ids"
    input_modalities = "text"
    _no_split_modules = ["ChimeraTextLayer"]  # noqa: RUF012


class ChimeraTextModel(ChimeraTextPreTrainedModel):
    """Features of the tokens of texts of any length: embedding, norm, blocks, norm.

    There are no position embeddings and no embeddings of token types: ``token_type_ids`` are ignored, ``[SEP]`` tells
    the sentences of a pair apart.

    Shapes: ``input_ids [B, T]`` → ``last_hidden_state [B, T, hidden_size]`` and ``pooler_output [B, hidden_size]``, the
    mean over the tokens of each text.
    """

    def __init__(self, config: ChimeraTextConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embedding_norm = RMSNorm(config.hidden_size)
        last = max(1, config.num_hidden_layers - 1)
        self.layers = nn.ModuleList(
            ChimeraTextLayer(config.hidden_size, _mixer(config), config.drop_path * depth / last)
            for depth in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of words."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Another embedding of words."""
        self.embeddings = value

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
            attention_mask: 1 at tokens, 0 at padding, ``[B, T]``. Padding, on either side, changes nothing.
            inputs_embeds: embedded tokens ``[B, T, hidden_size]``, in place of ``input_ids``.
            seq_idx: for several texts in a row, the number of each token's text, ``[B, T]``, as made by
                ``DataCollatorWithFlattening(return_seq_idx=True, return_position_ids=False)``. Each text is by itself.
            output_hidden_states: whether to return ``hidden_states``.
            kwargs: others that tokenizers and trainers give, of no meaning here.
        """
        x = self._embed(input_ids, inputs_embeds)
        _check(x, attention_mask, seq_idx, kwargs.get("position_ids"))
        # Packed texts are one row: a union of lines.
        shape, rows = x.shape, x.shape if seq_idx is None else (1, -1, x.shape[-1])
        topology = _line(shape[1]) if seq_idx is None else _lines(_lengths(seq_idx))
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

    def _embed(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, found both or neither")
        if input_ids is not None:
            if input_ids.dim() != 2:
                raise ValueError(f"input_ids must have shape [batch, tokens], found {list(input_ids.shape)}")
            inputs_embeds = self._words(input_ids)
        assert inputs_embeds is not None
        if inputs_embeds.dim() != 3 or inputs_embeds.shape[-1] != self.config.hidden_size:
            raise ValueError(
                f"inputs_embeds must have shape [batch, tokens, {self.config.hidden_size}], "
                f"found {list(inputs_embeds.shape)}"
            )
        if 0 in inputs_embeds.shape:
            raise ValueError(
                f"a batch must have a text, and a text a token, found {list(inputs_embeds.shape[:2])} for "
                "[batch, tokens]: leave empty ones out"
            )
        return self.embedding_norm(inputs_embeds)

    def _words(self, input_ids: Tensor) -> Tensor:
        try:
            return self.embeddings(input_ids)
        except IndexError:  # a CPU's; a GPU has words of its own
            raise ValueError(
                f"input_ids must be from 0 to below vocab_size {self.config.vocab_size}, found {input_ids.min()} to "
                f"{input_ids.max()}: use the tokenizer that was saved with the model"
            ) from None


def _check(x: Tensor, attention_mask: Tensor | None, seq_idx: Tensor | None, position_ids: Any) -> None:
    for name, given in (("attention_mask", attention_mask), ("seq_idx", seq_idx)):
        if given is not None and given.shape != x.shape[:2]:
            raise ValueError(f"{name} must have shape {list(x.shape[:2])}, found {list(given.shape)}")
    if position_ids is not None:
        raise ValueError(
            "there are no positions: leave position_ids out; texts packed in one row are told apart by seq_idx, see "
            "DataCollatorWithFlattening(return_seq_idx=True, return_position_ids=False)"
        )


def _mixer(config: ChimeraTextConfig) -> nn.Module:
    if config.mixer == "mlp":
        return MLPMixer(config.hidden_size, config.max_length, config.expand)
    if config.mixer == "m2":
        return M2(config.hidden_size, config.expand)
    return Chimera(
        config.hidden_size,
        config.num_heads,
        config.state_size,
        config.expand,
        config.groups,
        kind=(OnTwoLines if config.variant == "dag" else OnUndirectedLine)(injection=config.injection),
        conv=config.conv,
        resolvent=config.resolvent,
        init=config.init,
    )


def _mean(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Mean over tokens, ``[B, hidden_size]``; zero where there is none."""
    if attention_mask is None:
        return x.mean(dim=1)
    present = attention_mask.bool().unsqueeze(-1)
    return x.masked_fill(~present, 0).sum(dim=1) / present.sum(dim=1).clamp(min=1)


def _lengths(seq_idx: Tensor) -> tuple[int, ...]:
    """Lengths of the texts, row after row: a text ends where the number changes, and at the end of its row."""
    starts = F.pad(seq_idx[:, 1:] != seq_idx[:, :-1], (1, 0), value=True).flatten().nonzero().flatten()
    return tuple(starts.diff(append=starts.new_tensor([seq_idx.numel()])).tolist())


@lru_cache(maxsize=256)
def _line(length: int) -> UndirectedLine:
    """One object for each length, because what is found out about a topology is kept on it."""
    return UndirectedLine(length)


@lru_cache(maxsize=8)
def _lines(lengths: tuple[int, ...]) -> Topology:
    return batch([_line(length) for length in lengths])
