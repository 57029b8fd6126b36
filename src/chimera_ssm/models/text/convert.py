"""Conversion between the Mamba-2 models of `transformers` and `ChimeraForCausalLM`: the same logits in both."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
from torch import Tensor
from transformers import Mamba2Config, Mamba2ForCausalLM

from chimera_ssm.models.text.causal import ChimeraForCausalLM
from chimera_ssm.models.text.causal_configuration import ChimeraCausalConfig
from chimera_ssm.nn import no_weight_decay

#: Fields of the configurations: Mamba-2's, and Chimera's.
_FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "state_size": "state_size",
    "num_heads": "num_heads",
    "expand": "expand",
    "n_groups": "groups",
    "conv_kernel": "conv_width",
    "use_bias": "use_bias",
    "layer_norm_epsilon": "rms_norm_eps",
    "residual_in_fp32": "residual_in_fp32",
    "tie_word_embeddings": "tie_word_embeddings",
    "use_cache": "use_cache",
    "pad_token_id": "pad_token_id",
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
}
#: Parts of the parameters' names: Mamba-2's, and Chimera's.
_NAMES = {
    "backbone.norm_f.": "chimera.norm.",
    "backbone.": "chimera.",
    "mixer.dt_bias": "mixer.step_bias",
    "mixer.A_log": "mixer.decay_bias",
    "mixer.D": "mixer.norm.D",
    "mixer.conv1d.": "mixer.conv.",
}
#: Settings of Chimera that Mamba-2 has, too.
_MAMBA2 = {"injection": "step", "conv": True, "resolvent": "exact", "mixer": "chimera", "embedding_norm": False}


def convert_mamba2(model: Mamba2ForCausalLM | str | PathLike) -> ChimeraForCausalLM:
    """A Mamba-2 model of `transformers` as a `ChimeraForCausalLM` with the same logits.

    Args:
        model: the model, or a folder or name for ``Mamba2ForCausalLM.from_pretrained``.

    Returns:
        A new model, which shares no memory with the given one.

    Example:
        >>> model = convert_mamba2("FOLDER")
        >>> model.save_pretrained("CONVERTED")
    """
    model = _loaded(model, Mamba2ForCausalLM)
    config = model.config
    if config.hidden_act != "silu":
        raise ValueError(f"the activation after the convolution must be silu, found hidden_act={config.hidden_act!r}")
    low, high = config.time_step_limit
    limits = None if low <= 0 and math.isinf(high) else (low, high)
    weights = {_renamed(name, _NAMES): _reshaped(name, w) for name, w in model.state_dict().items()}
    if not config.use_conv_bias:
        for name in [name for name in weights if name.endswith("conv.weight")]:
            weights[name.replace("weight", "bias")] = weights[name].new_zeros(len(weights[name]))
    fields = {ours: getattr(config, theirs) for theirs, ours in _FIELDS.items()}
    return _built(ChimeraForCausalLM, ChimeraCausalConfig(**fields, dt_limit=limits, **_MAMBA2), weights, model)


def export_mamba2(model: ChimeraForCausalLM | str | PathLike) -> Mamba2ForCausalLM:
    """A `ChimeraForCausalLM` as a Mamba-2 model of `transformers` with the same logits: `convert_mamba2` backwards.

    Args:
        model: the model, or a folder or name for ``ChimeraForCausalLM.from_pretrained``; with the settings that Mamba-2
            has: ``injection="step"``, the convolution, the exact resolvent and no norm after the embedding.

    Returns:
        A new model, which shares no memory with the given one.
    """
    model = _loaded(model, ChimeraForCausalLM)
    config = model.config
    if differing := [name for name, value in _MAMBA2.items() if getattr(config, name) != value]:
        name = differing[0]
        raise ValueError(f"Mamba-2 has {name}={_MAMBA2[name]!r}, found {name}={getattr(config, name)!r}")
    backwards = {ours: theirs for theirs, ours in _FIELDS.items()}
    names = {ours: theirs for theirs, ours in _NAMES.items()}
    weights = {_renamed(name, names): _reshaped(name, w) for name, w in model.state_dict().items()}
    heads = model.chimera.layers[0].mixer.num_heads
    if not config.learn_decay:
        for layer in range(config.num_hidden_layers):
            weights[f"backbone.layers.{layer}.mixer.A_log"] = torch.zeros(heads, dtype=model.dtype)
    fields = {backwards[ours]: getattr(config, ours) for ours in backwards}
    fields |= {"num_heads": heads, "head_dim": config.expand * config.hidden_size // heads, "use_conv_bias": True}
    limits = (0.0, float("inf")) if config.dt_limit is None else tuple(config.dt_limit)
    return _built(Mamba2ForCausalLM, Mamba2Config(**fields, time_step_limit=limits), weights, model)


def _loaded(model: Any, expected: Any) -> Any:
    if isinstance(model, (str, PathLike)):
        values, _ = expected.config_class.get_config_dict(model)
        if values.get("model_type") != expected.config_class.model_type:
            raise ValueError(
                f"expected the folder of a {expected.__name__}, found model_type {values.get('model_type')!r} in the "
                f"config.json of {model}"
            )
        return expected.from_pretrained(model)
    if not isinstance(model, expected):
        raise ValueError(f"expected a {expected.__name__} or its folder, found {type(model).__name__}")
    return model


def _renamed(name: str, parts: Mapping[str, str]) -> str:
    for old, new in parts.items():
        name = name.replace(old, new)
    return name


def _reshaped(name: str, weight: Tensor) -> Tensor:
    """A copy: Mamba-2's convolution is ``[D, 1, K]``, its step bias ``[H]``, ours ``[D, K]``, ``[H, 1]``."""
    if name.endswith("conv1d.weight") or name.endswith("step_bias"):
        weight = weight.squeeze(1)
    elif name.endswith("conv.weight") or name.endswith("dt_bias"):
        weight = weight.unsqueeze(1)
    return weight.detach().clone()


def _built(cls: Any, config: Any, weights: dict[str, Tensor], source: Any) -> Any:
    """A model with the given weights, and what else ``source`` has: precision, mode and settings of generation."""
    with torch.device("meta"):
        model = cls(config)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    no_weight_decay(model)
    model.generation_config = copy.deepcopy(source.generation_config)
    model.config.dtype = source.config.dtype
    return model.train(source.training)
