"""Presets: models by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from chimera_ssm.errors import did_you_mean
from chimera_ssm.models.graph import ChimeraForGraphs
from chimera_ssm.models.graph.presets import PRESETS as GRAPH_PRESETS
from chimera_ssm.models.image import ChimeraForImageClassification
from chimera_ssm.models.image.presets import PRESETS as IMAGE_PRESETS
from chimera_ssm.models.pretrained import find_weights, trained_models
from chimera_ssm.models.text import ChimeraForCausalLM, ChimeraForMaskedLM
from chimera_ssm.models.text.presets import CAUSAL_PRESETS
from chimera_ssm.models.text.presets import PRESETS as TEXT_PRESETS

#: The class of each model, which knows the class of its configuration, and the settings of the configuration.
_PRESETS: dict[str, tuple[Any, dict[str, Any]]] = {}


def register_presets(model: Any, presets: Mapping[str, dict[str, Any]]) -> None:
    """Make presets of a model class available to `create_model`.

    Args:
        model: class of the models, whose ``config_class`` is a dataclass.
        presets: for each name, settings of the configuration.
    """
    _PRESETS.update({name: (model, settings) for name, settings in presets.items()})


register_presets(ChimeraForImageClassification, IMAGE_PRESETS)
register_presets(ChimeraForMaskedLM, TEXT_PRESETS)
register_presets(ChimeraForCausalLM, CAUSAL_PRESETS)
register_presets(ChimeraForGraphs, GRAPH_PRESETS)


def list_models() -> list[str]:
    """Names of all presets and trained models."""
    return sorted({*_PRESETS, *trained_models()})


def create_model(name: str, pretrained: bool = False, **overrides: Any) -> nn.Module:
    """Build a preset; works under ``torch.device("meta")``.

    Args:
        name: one of `list_models`.
        pretrained: whether to load trained weights, which come with the package for `trained_models`. Folders of other
            weights are looked for in the folder of the environment variable ``CHIMERA_WEIGHTS``.
        overrides: fields of the model's configuration that replace those of the preset. With trained weights and
            another ``num_labels``, the output layer is drawn anew.

    Example:
        >>> model = create_model("chimera_image_tiny", num_labels=100)
    """
    _check_name("model", name, list_models())
    model = _PRESETS[name][0] if name in _PRESETS else _class_of(name)
    fields = {field.name for field in dataclasses.fields(model.config_class)} | {"num_labels"}
    for override in overrides:
        _check_name(f"setting of {name}", override, fields)
    if pretrained:
        return model.from_pretrained(
            find_weights(name), ignore_mismatched_sizes="num_labels" in overrides, **overrides
        ).eval()
    if name in _PRESETS:
        return model(model.config_class(**{**_PRESETS[name][1], **overrides}))
    return model(model.config_class.from_pretrained(find_weights(name), **overrides))


def _class_of(name: str) -> Any:
    """The class of a trained model."""
    config = json.loads((find_weights(name) / "config.json").read_text(encoding="utf-8"))
    classes = {model.__name__: model for model, _ in _PRESETS.values()}
    return classes[config["architectures"][0]]


def _check_name(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"no {what} is called {name!r}; {did_you_mean(name, sorted(known))}")
