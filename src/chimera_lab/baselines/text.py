"""Masked language models of equal size with different mixers, for comparisons."""

from __future__ import annotations

from collections.abc import Callable
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

from chimera_lab.baselines.local_attention import LocalConvBertConfig, LocalConvBertForMaskedLM
from chimera_lab.baselines.m2 import M2
from chimera_lab.baselines.matching import chimera_step, matching_width
from chimera_lab.baselines.mlp_mixer import MLPMixer
from chimera_ssm.models import ChimeraForMaskedLM, ChimeraTextConfig
from chimera_ssm.models.base import initial_range
from chimera_ssm.models.mixers import known_mixers, register_mixer
from chimera_ssm.models.registry import register_presets

register_mixer("text", "mlp", lambda config: MLPMixer(config.hidden_size, config.max_length, config.expand))
register_mixer("text", "m2", lambda config: M2(config.hidden_size, config.expand))
# The paper's control of depth and size.
register_presets(BertForMaskedLM, {"bert_70m_6l": {"num_hidden_layers": 6}})


def text_model(mixer: str, dropout: float = 0.1, **sizes: Any) -> PreTrainedModel:
    """A masked language model ready to train, called as ``model(input_ids=…, labels=…)``.

    Args:
        mixer: ``"chimera"``; ``"mlp"`` (MLP-Mixer) or ``"m2"`` (Monarch Mixer) in Chimera's block; or a model of
            `transformers`: ``"bert"``, ``"bert_rotary"`` with rotary positions, ``"bert_conv"`` with Chimera's local
            convolution, or ``"fnet"``.
        dropout: dropout of the models of `transformers`; the others have none.
        sizes: fields of `ChimeraTextConfig`; those that do not apply to a mixer are ignored. ``max_length`` is the
            number of positions of the models of `transformers`, and the maximal length of ``"mlp"``.
    """
    _check_mixer(mixer)
    if mixer in _TRANSFORMERS:
        return _TRANSFORMERS[mixer](ChimeraTextConfig(**sizes), dropout)
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
            return text_model(mixer, **{**sizes, "hidden_size": width}).num_parameters(only_trainable=True)

    return {**sizes, "hidden_size": matching_width(count, target, step, mixer)}


#: Widths are multiples of these: BERT has at least two heads, rotary heads have pairs of features, M2 has four blocks.
_STEPS = {"bert": 2, "bert_conv": 2, "bert_rotary": 4, "m2": 4}


def _bert(sizes: ChimeraTextConfig, dropout: float) -> BertForMaskedLM:
    return BertForMaskedLM(BertConfig(**_common(sizes, dropout), **attention_sizes(sizes.hidden_size)))


def _bert_conv(sizes: ChimeraTextConfig, dropout: float) -> LocalConvBertForMaskedLM:
    config = LocalConvBertConfig(**_common(sizes, dropout), **attention_sizes(sizes.hidden_size))
    return LocalConvBertForMaskedLM(config)


def _bert_rotary(sizes: ChimeraTextConfig, dropout: float) -> RoFormerForMaskedLM:
    """BERT with rotary position embeddings (Su et al. 2021)."""
    return RoFormerForMaskedLM(RoFormerConfig(**_common(sizes, dropout), **attention_sizes(sizes.hidden_size, 2)))


def _fnet(sizes: ChimeraTextConfig, dropout: float) -> FNetForMaskedLM:
    return FNetForMaskedLM(FNetConfig(**_common(sizes, dropout)))


def attention_sizes(width: int, multiple: int = 1) -> dict[str, Any]:
    """Heads of about 64 features, or fewer if there would be less than four heads; their size is a multiple."""
    head = min(64, max(16, width // 4))
    sizes = [size for size in range(multiple, width + 1, multiple) if width % size == 0]
    if not sizes:
        raise ValueError(f"hidden_size must be a multiple of {multiple}, found {width}")
    size = min(sizes, key=lambda size: max(size / head, head / size))
    # fast attention kernels do not support dropout
    return {"num_attention_heads": width // size, "attention_probs_dropout_prob": 0.0}


_TRANSFORMERS: dict[str, Callable[[ChimeraTextConfig, float], PreTrainedModel]] = {
    "bert": _bert,
    "bert_rotary": _bert_rotary,
    "bert_conv": _bert_conv,
    "fnet": _fnet,
}


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
    known = *known_mixers("text"), *_TRANSFORMERS
    if mixer not in known:
        raise ValueError(f"mixer must be one of {', '.join(known)}; found {mixer!r}")
