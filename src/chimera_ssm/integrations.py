"""Registration with `transformers` and `peft` when these are imported, so that ``import chimera_ssm`` loads neither.

A finder at the front of ``sys.meta_path`` waits for three of their modules and calls a function once each is loaded: no
code of theirs is changed, and what is called is their public interface.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

MODEL_TYPES = ("chimera_causal", "chimera_graph", "chimera_image", "chimera_text")


def register_configurations(auto: Any) -> None:
    """Register, for each of our model types, a configuration that loads `chimera_ssm.models` when it is first used."""
    for model_type in MODEL_TYPES:
        if model_type not in auto.CONFIG_MAPPING:
            auto.AutoConfig.register(model_type, _placeholder(auto, model_type))


def _placeholder(auto: Any, model_type: str) -> type:
    """A configuration class in whose place the real one is created."""

    def real() -> Any:
        import_module("chimera_ssm.models")  # registers the real classes
        return auto.CONFIG_MAPPING[model_type]

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real()(*args, **kwargs)

    def from_dict(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real().from_dict(*args, **kwargs)

    base = import_module("transformers").PreTrainedConfig
    content = {"model_type": model_type, "__new__": new, "from_dict": classmethod(from_dict)}
    return type("ChimeraConfigPlaceholder", (base,), content)


def register_processors(auto: Any) -> None:
    """Register the image processor: it is found by the name of its class, for which the class must exist."""
    import_module("chimera_ssm.models")


def register_adapters(constants: Any) -> None:
    """Let adapters of `peft` without ``target_modules`` adapt the projections of the mixers."""
    for name, mapping in vars(constants).items():
        is_mapping = name.startswith("TRANSFORMERS_MODELS_TO_") and name.endswith("_TARGET_MODULES_MAPPING")
        if is_mapping and {"q_proj", "v_proj"} & set(mapping.get("llama", [])):  # methods that adapt linear layers
            mapping.update({model_type: ["in_proj", "out_proj"] for model_type in MODEL_TYPES})


#: Modules to wait for, and what to do with them.
HOOKS: dict[str, Callable[[Any], None]] = {
    "transformers.models.auto.configuration_auto": register_configurations,
    "transformers.models.auto.image_processing_auto": register_processors,
    "peft.utils.constants": register_adapters,
}


class _AfterImport(Loader):
    """A loader that calls a function after a module is loaded."""

    def __init__(self, loader: Loader, then: Callable[[Any], None]):
        self.loader, self.then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.then(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)  # such as get_source, for tracebacks


class _Finder(MetaPathFinder):
    """Finds the modules of `HOOKS`, once each, through all other finders."""

    def __init__(self) -> None:
        self.waiting = dict(HOOKS)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        then = self.waiting.pop(fullname, None)
        spec = None if then is None else find_spec(fullname)
        if then is not None and spec is not None and spec.loader is not None:
            spec.loader = _AfterImport(spec.loader, then)
        return spec


def install() -> None:
    """Register with what is loaded already, and wait for the rest."""
    finder = _Finder()
    for name in HOOKS:
        if name in sys.modules:
            finder.waiting.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, finder)
