"""Running a model while looking into some of its modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn


def run_with_hooks(
    model: nn.Module, kind: type[nn.Module], hook: Callable[..., None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Run ``model(*args, **kwargs)`` and call ``hook(module, args, kwargs)`` before each module of a kind.

    Raises:
        ValueError: the model has no such module, so that there is no resolvent in it.
    """
    modules = [module for module in model.modules() if isinstance(module, kind)]
    if not modules:
        raise ValueError(f"{type(model).__name__} has no Chimera mixer, so there is no resolvent to look at")
    hooks = [module.register_forward_pre_hook(hook, with_kwargs=True) for module in modules]
    try:
        model(*args, **kwargs)
    finally:
        for registered in hooks:
            registered.remove()
