"""Causal language models: tokens are the nodes of a directed line, continued from a cache of states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from chimera_ssm.models.base import build_blocks, chimera_mixer
from chimera_ssm.models.mixers import register_mixer
from chimera_ssm.models.text.cache import ChimeraCache, check_cache
from chimera_ssm.models.text.causal_configuration import ChimeraCausalConfig
from chimera_ssm.models.text.modeling import (
    ChimeraTextLayer,
    ChimeraTextPreTrainedModel,
    EmbeddedTokens,
    check_inputs,
    text_lengths,
)
from chimera_ssm.nn import OnLine, RMSNorm
from chimera_ssm.topology import Line, batch
from chimera_ssm.topology.checks import capturing


class ChimeraCausalModel(EmbeddedTokens):
    """Features of the tokens of texts, each of which depends on the tokens before it: embedding, blocks, norm.

    Shapes: ``input_ids [B, T]`` → ``last_hidden_state [B, T, hidden_size]``.
    """

    config_class = ChimeraCausalConfig

    def __init__(self, config: ChimeraCausalConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embedding_norm = (
            RMSNorm(config.hidden_size, config.rms_norm_eps) if config.embedding_norm else nn.Identity()
        )
        self.layers = build_blocks(config, ChimeraTextLayer, eps=config.rms_norm_eps)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        seq_idx: Tensor | None = None,
        past_key_values: ChimeraCache | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """Features of each token; ``hidden_states`` are the embedding and each block's output.

        Args:
            input_ids: tokens, ``[B, T]``.
            attention_mask: 1 at tokens, 0 at padding, which is skipped wherever it is: ``[B, T]``, or ``[B, past + T]``
                with the tokens that are in the cache.
            inputs_embeds: embedded tokens ``[B, T, hidden_size]``, in place of ``input_ids``.
            seq_idx: for packed texts, the index of each token's text, ``[B, T]``, see `ChimeraTextModel`.
            past_key_values: the states after earlier tokens; they are continued and updated.
            use_cache: whether to return the states; by default ``config.use_cache``, but not in training or exports.
            output_hidden_states: whether to return ``hidden_states``.
            kwargs: other outputs of tokenizers and trainers, which are ignored.
        """
        x = self._embed(input_ids, inputs_embeds)
        attention_mask = _of_new_tokens(attention_mask, x, past_key_values)
        check_inputs(x, attention_mask, seq_idx, kwargs.get("position_ids"))
        cache = self._cache(past_key_values, use_cache, x, seq_idx)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        x = x.float() if self.config.residual_in_fp32 else x
        kept: list[Any] = [x]
        for y in self._blocks(x, attention_mask, seq_idx, cache):
            kept = [*kept, y] if wanted else [y]
        hidden_states: Any = tuple(kept) if wanted else None
        x = self.norm(kept[-1]).to(self.norm.weight.dtype)
        return BaseModelOutputWithPast(
            last_hidden_state=x, past_key_values=None if use_cache is False else cache, hidden_states=hidden_states
        )

    def _cache(
        self, given: ChimeraCache | None, use_cache: bool | None, x: Tensor, seq_idx: Tensor | None
    ) -> ChimeraCache | None:
        """The cache to continue and update, if any."""
        if seq_idx is not None and (given is not None or use_cache):
            raise ValueError("packed texts have no cache: leave past_key_values and use_cache out, or pad the batch")
        if given is not None:
            check_cache(given, len(self.layers), len(x))
            return given
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training and seq_idx is None and not capturing()
        if self.training and self.gradient_checkpointing:
            use_cache = False
        return ChimeraCache() if use_cache else None

    def _blocks(
        self, x: Tensor, attention_mask: Tensor | None, seq_idx: Tensor | None, cache: ChimeraCache | None
    ) -> Iterator[Tensor]:
        """The output of each block, ``[B, T, hidden_size]``; the cache is updated after the last."""
        node_mask = None if attention_mask is None else attention_mask.bool()
        if seq_idx is not None:  # one row of nodes: a batch of lines
            lines, shape = batch([Line(length) for length in text_lengths(seq_idx)]), x.shape
            node_mask = None if node_mask is None else node_mask.reshape(1, -1)
            for layer in self.layers:
                x = layer(x.reshape(1, -1, shape[-1]), lines, None, node_mask).reshape(shape)
                yield x
            return
        line, states = Line(x.shape[1]), []
        before = cache.states if cache is not None and cache.states else [None] * len(self.layers)
        for layer, state in zip(self.layers, before, strict=True):
            if cache is None and node_mask is None:
                x = layer(x, line)
            else:  # also without a cache, so that padding has the same meaning
                x, state = layer(x, line, None, node_mask, state, True)
                states.append(state)
            yield x
        if cache is not None:
            cache.append(states, x.shape[1])


class ChimeraForCausalLM(ChimeraTextPreTrainedModel, GenerationMixin):
    """`ChimeraCausalModel` that predicts the next token.

    Shapes: ``input_ids [B, T]`` → ``logits [B, T, vocab_size]``.
    """

    config_class = ChimeraCausalConfig
    accepts_loss_kwargs = True
    _tied_weights_keys = {"lm_head.weight": "chimera.embeddings.weight"}  # noqa: RUF012
    _is_stateful = True  # tokens cannot be taken back, as assisted generation would

    def __init__(self, config: ChimeraCausalConfig):
        super().__init__(config)
        self.chimera = ChimeraCausalModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: ChimeraCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Scores of the next token, and the loss if ``labels [B, T]`` are given: the tokens, or −100 to ignore one.

        The labels are shifted here: the scores at a token are compared with the label of the token after it. Other
        arguments are those of `ChimeraCausalModel`.

        Args:
            input_ids: tokens, ``[B, T]``.
            attention_mask: 1 at tokens, 0 at padding.
            inputs_embeds: embedded tokens, in place of ``input_ids``.
            labels: the tokens themselves, usually.
            past_key_values: the states after earlier tokens.
            use_cache: whether to return the states.
            logits_to_keep: the number of last tokens for which to compute scores, 0 for all, or their indices.
            num_items_in_batch: number of labels by which the sum of losses is divided; by default those of this call.
            kwargs: arguments of `ChimeraCausalModel`.
        """
        states = {"past_key_values": past_key_values, "use_cache": use_cache}
        outputs = self.chimera(input_ids, attention_mask, inputs_embeds, return_dict=True, **states, **kwargs)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config.vocab_size, num_items_in_batch=num_items_in_batch)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
        )

    def prepare_inputs_for_generation(
        self, *args: Any, inputs_embeds: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """As in `GenerationMixin`, without positions, which the model does not have."""
        kwargs.pop("position_ids", None)
        prepare: Any = super().prepare_inputs_for_generation
        return prepare(*args, inputs_embeds=inputs_embeds, **kwargs)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """The model creates its own cache."""
        return False


def _of_new_tokens(attention_mask: Tensor | None, x: Tensor, cache: Any) -> Tensor | None:
    """The mask of the new tokens ``x [B, T, hidden_size]``; ``None`` if there is no padding."""
    if attention_mask is None:
        return None
    past = cache.get_seq_length() if isinstance(cache, ChimeraCache) else 0
    if attention_mask.shape == (x.shape[0], past + x.shape[1]):
        attention_mask = attention_mask[:, past:]
    unknown = torch.compiler.is_compiling() or capturing()  # one graph for all masks
    if unknown or attention_mask.shape != x.shape[:2]:
        return attention_mask
    return None if attention_mask.all() else attention_mask


def _chimera(config: ChimeraCausalConfig) -> nn.Module:
    width, learned = config.conv_width, config.learn_decay
    kind = OnLine(step="target", learn_decay=learned, width=width, injection=config.injection)
    limits: Any = None if config.dt_limit is None else tuple(config.dt_limit)
    options = {"dt_limit": limits, "bias": config.use_bias, "eps": config.rms_norm_eps}
    return chimera_mixer(config, kind, config.num_heads, **options)


register_mixer("causal", "chimera", _chimera)
