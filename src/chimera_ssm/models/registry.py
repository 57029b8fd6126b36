"""Models by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from torch import nn
from transformers import BertForMaskedLM

from chimera_ssm.errors import did_you_mean
from chimera_ssm.models.graph import ChimeraForGraphs
from chimera_ssm.models.graph.presets import PRESETS as GRAPH_PRESETS
from chimera_ssm.models.image import ChimeraForImageClassification
from chimera_ssm.models.image.presets import PRESETS as IMAGE_PRESETS
from chimera_ssm.models.text import ChimeraForMaskedLM
from chimera_ssm.models.text.presets import BERT_PRESETS
from chimera_ssm.models.text.presets import PRESETS as TEXT_PRESETS

#: For each name the class of the model, which knows that of its configuration, and the configuration's settings.
PRESETS: dict[str, tuple[Any, dict[str, Any]]] = {
    name: (model, settings)
    for model, presets in (
        (ChimeraForImageClassification, IMAGE_PRESETS),
        (ChimeraForMaskedLM, TEXT_PRESETS),
        (BertForMaskedLM, BERT_PRESETS),
        (ChimeraForGraphs, GRAPH_PRESETS),
    )
    for name, settings in presets.items()
}


def list_models() -> list[str]:
    """Names of all presets."""
    return sorted(PRESETS)


def create_model(name: str, **overrides: Any) -> nn.Module:
    """Build a preset, also under ``torch.device("meta")``.

    Args:
        name: one of `list_models`.
        overrides: fields of the model's configuration that should differ from the preset.

    Example:
        >>> model = create_model("chimera_image_tiny", num_labels=100)
    """
    _check_name("model", name, PRESETS)
    model, settings = PRESETS[name]
    fields = {field.name for field in dataclasses.fields(model.config_class)} | {"num_labels"}
    for override in overrides:
        _check_name(f"setting of {name}", override, fields)
    return model(model.config_class(**{**settings, **overrides}))


def _check_name(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"no {what} is called {name!r}; {did_you_mean(name, sorted(known))}")
