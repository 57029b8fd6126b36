"""Masked language models of equal size with different mixers, for comparisons."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    FNetConfig,
    FNetForMaskedLM,
    PreTrainedModel,
    RoFormerConfig,
    RoFormerForMaskedLM,
)

from chimera_ssm.models.text.configuration import CHOICES, ChimeraTextConfig
from chimera_ssm.models.text.heads import ChimeraForMaskedLM
from chimera_ssm.models.width import chimera_step, initial_range, matching_width

MIXERS = (*map(str, CHOICES["mixer"]), "bert", "bert_rotary", "fnet")


def text_model(mixer: str, dropout: float = 0.1, **sizes: Any) -> PreTrainedModel:
    """A model that guesses masked words, ready to train; called as ``model(input_ids=…, labels=…)``.

    Args:
        mixer: one of `MIXERS`: Chimera, or a baseline in its block, or a model of `transformers`: BERT, with learned
            or with rotary positions, or FNet.
        dropout: of the models of `transformers`; the others have none.
        sizes: fields of `ChimeraTextConfig`; those that a mixer has no use for are ignored. ``max_length`` is the
            number of positions of the models of `transformers`, and the longest text of ``"mlp"``.
    """
    _check_mixer(mixer)
    build = {"bert": _bert, "bert_rotary": _bert_rotary, "fnet": _fnet}.get(mixer)
    if build is None:
        return ChimeraForMaskedLM(ChimeraTextConfig(**sizes, mixer=mixer))
    return build(ChimeraTextConfig(**sizes), dropout)


def match_text_parameters(mixer: str, target: int, **sizes: Any) -> dict[str, Any]:
    """Sizes with ``hidden_size`` changed so that the model has ``target`` parameters, within 3 %.

    Args:
        mixer: as for `text_model`.
        target: number of parameters.
        sizes: fields of `ChimeraTextConfig`.

    Returns:
        The sizes, for `text_model`.
    """
    _check_mixer(mixer)
    step = chimera_step(**sizes) if mixer == "chimera" else _STEPS.get(mixer, 1)

    def count(width: int) -> int:
        with torch.device("meta"):
            return text_model(mixer, **{**sizes, "hidden_size": width}).num_parameters(only_trainable=True)

    return {**sizes, "hidden_size": matching_width(count, target, step, mixer)}


#: Widths are multiples of these: BERT has two heads at least, rotary ones of pairs of features, and M2 four blocks.
_STEPS = {"bert": 2, "bert_rotary": 4, "m2": 4}


def _bert(sizes: ChimeraTextConfig, dropout: float) -> BertForMaskedLM:
    return BertForMaskedLM(BertConfig(**_common(sizes, dropout), **_attention(sizes.hidden_size)))


def _bert_rotary(sizes: ChimeraTextConfig, dropout: float) -> RoFormerForMaskedLM:
    """BERT with queries and keys turned by their positions, and no other difference (Su et al. 2021)."""
    return RoFormerForMaskedLM(RoFormerConfig(**_common(sizes, dropout), **_attention(sizes.hidden_size, 2)))


def _fnet(sizes: ChimeraTextConfig, dropout: float) -> FNetForMaskedLM:
    return FNetForMaskedLM(FNetConfig(**_common(sizes, dropout)))


def _attention(width: int, multiple: int = 1) -> dict[str, Any]:
    """Heads of about 64 features, smaller ones where there would be fewer than four; a multiple of something."""
    head = min(64, max(16, width // 4))
    sizes = [size for size in range(multiple, width + 1, multiple) if width % size == 0]
    if not sizes:
        raise ValueError(f"hidden_size must be a multiple of {multiple}, found {width}")
    size = min(sizes, key=lambda size: max(size / head, head / size))
    # no dropout in attention, which the fast kernels have not
    return {"num_attention_heads": width // size, "attention_probs_dropout_prob": 0.0}


def _common(sizes: ChimeraTextConfig, dropout: float) -> dict[str, Any]:
    return {
        "vocab_size": sizes.vocab_size,
        "hidden_size": sizes.hidden_size,
        "intermediate_size": 4 * sizes.hidden_size,
        "num_hidden_layers": sizes.num_hidden_layers,
        "max_position_embeddings": sizes.max_length,
        "type_vocab_size": 2,
        "hidden_dropout_prob": dropout,
        "initializer_range": initial_range(sizes),
        "pad_token_id": sizes.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _check_mixer(mixer: str) -> None:
    if mixer not in MIXERS:
        raise ValueError(f"mixer must be one of {', '.join(MIXERS)}; found {mixer!r}")
