"""Settings of recipes that are derived from the configuration class of a model."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, get_type_hints

from transformers import PreTrainedConfig

from chimera_lab.training.settings import Settings, setting

_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
_SUMMARY = re.compile(r"(.*?)(?:, see .*?)?[.;:](?:\s|$)", re.DOTALL)


@dataclass(frozen=True)
class ModelSettings(Settings):
    """Base class of `model_settings`; the configuration validates the values when a recipe is created."""

    model_config: ClassVar[Any]
    model_names: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model_config(**self.model_values())

    def model_values(self) -> dict[str, Any]:
        """The hyperparameters of the model, as arguments of its configuration."""
        return {name: getattr(self, name) for name in self.model_names}


def model_settings(config: Any, exclude: Sequence[str] = (), **defaults: Any) -> Any:
    """A base class for recipes: each hyperparameter that a configuration declares becomes a setting.

    Name, type, default, choices and documentation are those of the configuration. A recipe may declare a
    hyperparameter again to change these.

    Args:
        config: a subclass of `PreTrainedConfig` with a class method ``choices``, documented by an ``Args`` section, as
            are its bases. An entry up to its first full stop, colon or semicolon appears in ``--help``.
        exclude: hyperparameters that follow from the data, or keep the configuration's default.
        defaults: values that differ from the configuration's defaults.
    """
    classes = [c for c in reversed(config.__mro__) if issubclass(c, PreTrainedConfig) and c is not PreTrainedConfig]
    docs = {name: text for c in classes for name, text in _ENTRY.findall(inspect.getdoc(c) or "")}
    types = {name: kind for c in classes for name, kind in _declared(c).items() if name not in exclude}
    choices = config.choices()
    fields = [
        (
            name,
            _with_choices(types[name], choices.get(name)),
            setting(defaults.get(name, getattr(config, name)), _summary(docs[name])),
        )
        for name in types
    ]
    names = {"model_config": config, "model_names": tuple(types)}
    return make_dataclass(
        f"{config.__name__}Settings", fields, bases=(ModelSettings,), namespace=names, frozen=True, kw_only=True
    )


def _declared(config: Any) -> dict[str, Any]:
    """The types of the fields that a class itself declares."""
    written = {name: kind for name, kind in inspect.get_annotations(config).items() if "ClassVar" not in str(kind)}
    return get_type_hints(SimpleNamespace(__annotations__=written), vars(sys.modules[config.__module__]))


def _with_choices(kind: Any, choices: Sequence[Any] | None) -> Any:
    if choices is None:
        return kind
    listed = Literal[tuple(choice for choice in choices if choice is not None)]  # ty: ignore[invalid-type-form]
    return listed | None if None in choices else listed


def _summary(text: str) -> str:
    """The first clause of an entry, without markup."""
    found = _SUMMARY.match(text)
    return re.sub(r'`+"?|"?`+', "", " ".join((found[1] if found else text).split()))
