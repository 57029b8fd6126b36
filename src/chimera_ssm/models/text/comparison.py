"""Masked language models of equal size with different mixers, for comparisons."""

from __future__ import annotations

from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, FNetConfig, FNetForMaskedLM, PreTrainedModel

from chimera_ssm.models.text.configuration import CHOICES, ChimeraTextConfig
from chimera_ssm.models.text.heads import ChimeraForMaskedLM
from chimera_ssm.models.width import chimera_step, matching_width

MIXERS = (*CHOICES["mixer"], "bert", "fnet")


def text_model(mixer: str, **sizes: Any) -> PreTrainedModel:
    """A model that guesses masked words, ready to train; called as ``model(input_ids=…, labels=…)``.

    Args:
        mixer: one of `MIXERS`: Chimera, or a baseline in its block, or a model of `transformers`.
        sizes: fields of `ChimeraTextConfig`; those that a mixer has no use for are ignored. ``max_length`` is the
            number of positions of BERT and FNet.
    """
    _check_mixer(mixer)
    if mixer == "bert":
        return _bert(ChimeraTextConfig(**sizes))
    if mixer == "fnet":
        return _fnet(ChimeraTextConfig(**sizes))
    return ChimeraForMaskedLM(ChimeraTextConfig(**sizes, mixer=mixer))


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
            return text_model(mixer, **{**sizes, "hidden_size": width}).num_parameters()

    return {**sizes, "hidden_size": matching_width(count, target, step, mixer)}


#: Widths are multiples of these: BERT has two heads at least, M2's matrices have four blocks.
_STEPS = {"bert": 2, "m2": 4}


def _bert(sizes: ChimeraTextConfig) -> BertForMaskedLM:
    """Heads of about 64 features, smaller ones where there would be fewer than four, and MLPs four times as wide."""
    width = sizes.hidden_size
    head = min(64, max(16, width // 4))
    heads = min((h for h in range(1, width + 1) if width % h == 0), key=lambda h: abs(width / h - head))
    fields: dict[str, Any] = {"num_attention_heads": heads, "intermediate_size": 4 * width}
    # no dropout in attention, which the fast kernels have not
    return BertForMaskedLM(BertConfig(**_common(sizes), **fields, attention_probs_dropout_prob=0.0))


def _fnet(sizes: ChimeraTextConfig) -> FNetForMaskedLM:
    fields: dict[str, Any] = {"intermediate_size": 4 * sizes.hidden_size, "type_vocab_size": 2}
    return FNetForMaskedLM(FNetConfig(**_common(sizes), **fields))


def _common(sizes: ChimeraTextConfig) -> dict[str, Any]:
    return {
        "vocab_size": sizes.vocab_size,
        "hidden_size": sizes.hidden_size,
        "num_hidden_layers": sizes.num_hidden_layers,
        "max_position_embeddings": sizes.max_length,
        "hidden_dropout_prob": 0.1,
        "initializer_range": sizes.initializer_range,
        "pad_token_id": sizes.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _check_mixer(mixer: str) -> None:
    if mixer not in MIXERS:
        raise ValueError(f"mixer must be one of {', '.join(MIXERS)}; found {mixer!r}")
