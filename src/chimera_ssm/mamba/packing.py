"""Packed sequences in models that do not pass ``seq_idx`` on to their layers, such as ``Mamba2ForCausalLM``."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle


class PackedArguments:
    """Hooks that pass the arguments that tell packed sequences apart from a model on to its base model."""

    NAMES = ("seq_idx", "cu_seqlens")

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def hold(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the model: remember them."""
        self.held = {name: kwargs[name] for name in self.NAMES if kwargs.get(name) is not None}

    def give(self, base: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Before the base model: add them."""
        return args, {**self.held, **kwargs}

    def release(self, *_: Any) -> None:
        """After the model, also if it failed."""
        self.held = {}


def pass_on_sequences(model: nn.Module) -> list[RemovableHandle]:
    """Register `PackedArguments` on all modules of a model that have a base model."""
    hooks: list[RemovableHandle] = []
    for module in model.modules():
        base, packed = getattr(module, "base_model", module), PackedArguments()
        if base is not module and isinstance(base, nn.Module):
            hooks += [
                module.register_forward_pre_hook(packed.hold, with_kwargs=True),
                base.register_forward_pre_hook(packed.give, with_kwargs=True),
                module.register_forward_hook(packed.release, always_call=True),
            ]
    return hooks
