"""Causal language models of equal size, for comparisons: Chimera, Mamba-2 and GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Mamba2Config, Mamba2ForCausalLM, PreTrainedModel

from chimera_lab.baselines.matching import chimera_step, matching_width
from chimera_lab.baselines.text import attention_sizes
from chimera_ssm.models import ChimeraCausalConfig, ChimeraForCausalLM
from chimera_ssm.models.base import initial_range


def causal_model(mixer: str, dropout: float = 0.1, max_length: int = 1024, **sizes: Any) -> PreTrainedModel:
    """A causal language model ready to train, called as ``model(input_ids=…, labels=…)``.

    Args:
        mixer: ``"chimera"``, or a model of `transformers`: ``"mamba2"`` or ``"gpt2"``.
        dropout: dropout of GPT-2; the others have none.
        max_length: number of positions of GPT-2; the others have no maximum.
        sizes: fields of `ChimeraCausalConfig`; those that do not apply to a model are ignored.
    """
    _check_mixer(mixer)
    return _MODELS[mixer](ChimeraCausalConfig(**sizes), dropout, max_length)


def match_causal_parameters(mixer: str, target: int, **sizes: Any) -> dict[str, Any]:
    """Sizes with ``hidden_size`` changed so that the model has ``target`` parameters, within 3 %.

    Args:
        mixer: as for `causal_model`.
        target: number of parameters.
        sizes: arguments of `causal_model`.

    Returns:
        The sizes, for `causal_model`.
    """
    _check_mixer(mixer)
    step = 2 if mixer == "gpt2" else chimera_step(sizes.get("num_heads"), sizes.get("expand", 2))  # two heads

    def count(width: int) -> int:
        with torch.device("meta"):
            return causal_model(mixer, **{**sizes, "hidden_size": width}).num_parameters(only_trainable=True)

    return {**sizes, "hidden_size": matching_width(count, target, step, mixer)}


def _chimera(sizes: ChimeraCausalConfig, dropout: float, max_length: int) -> ChimeraForCausalLM:
    return ChimeraForCausalLM(sizes)


def _mamba2(sizes: ChimeraCausalConfig, dropout: float, max_length: int) -> Mamba2ForCausalLM:
    inner = sizes.expand * sizes.hidden_size
    heads = max(1, inner // 64) if sizes.num_heads is None else sizes.num_heads
    if inner % heads:
        raise ValueError(
            f"the inner width {inner} must be divisible by the number of heads, {heads}: change hidden_size"
        )
    config = Mamba2Config(
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.num_hidden_layers,
        state_size=sizes.state_size,
        expand=sizes.expand,
        num_heads=heads,
        head_dim=inner // heads,
        n_groups=sizes.groups,
        conv_kernel=sizes.conv_width,
        initializer_range=initial_range(sizes),
        **_common(sizes),
    )
    return Mamba2ForCausalLM(config)


def _gpt2(sizes: ChimeraCausalConfig, dropout: float, max_length: int) -> GPT2LMHeadModel:
    attention = attention_sizes(sizes.hidden_size)
    config = GPT2Config(
        n_embd=sizes.hidden_size,
        n_layer=sizes.num_hidden_layers,
        n_head=attention["num_attention_heads"],
        n_positions=max_length,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=attention["attention_probs_dropout_prob"],
        initializer_range=initial_range(sizes),
        **_common(sizes),
    )
    return GPT2LMHeadModel(config)


def _common(sizes: ChimeraCausalConfig) -> dict[str, Any]:
    return {
        "vocab_size": sizes.vocab_size,
        "tie_word_embeddings": sizes.tie_word_embeddings,
        "pad_token_id": sizes.pad_token_id,
        "bos_token_id": sizes.bos_token_id,
        "eos_token_id": sizes.eos_token_id,
    }


_MODELS: dict[str, Callable[[ChimeraCausalConfig, float, int], PreTrainedModel]] = {
    "chimera": _chimera,
    "mamba2": _mamba2,
    "gpt2": _gpt2,
}


def _check_mixer(mixer: str) -> None:
    if mixer not in _MODELS:
        raise ValueError(f"mixer must be one of {', '.join(_MODELS)}; found {mixer!r}")
