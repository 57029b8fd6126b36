"""The base class of all models for `transformers`: initial weights, and blocks with drop-path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from math import sqrt
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedModel

from chimera_ssm.models.card import write_card
from chimera_ssm.models.mixers import build_mixer
from chimera_ssm.nn import Block, Chimera, Kind, no_weight_decay

T = TypeVar("T")


class ChimeraPreTrainedModel(PreTrainedModel):
    """Initializes weights, and marks parameters that are exempt from weight decay, also after loading."""

    base_model_prefix = "chimera"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means over a batch: transformers' Trainer divides them when it accumulates

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As in `PreTrainedModel`."""
        load: Any = super().from_pretrained
        model, info = load(*args, output_loading_info=True, **kwargs)
        if any(name.endswith(".mixer.D") for name in info["unexpected_keys"]):
            # Saved when D was a parameter of the mixer itself, and step was the only injection.
            kwargs = {"injection": "step", **kwargs}
            renamed = {".mixer.D": ".mixer.norm.D", **kwargs.pop("key_mapping", {})}
            model, info = load(*args, output_loading_info=True, key_mapping=renamed, **kwargs)
        _check_layers(info["missing_keys"], info["unexpected_keys"])
        no_weight_decay(model)
        return (model, info) if output_loading_info else model

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> Any:
        """As in `PreTrainedModel`, with a model card (README.md) unless the folder has one."""
        saved: Any = super().save_pretrained
        result = saved(save_directory, *args, **kwargs)
        if Path(save_directory).is_dir() and not Path(save_directory, "README.md").exists():
            write_card(self, save_directory)
        return result

    def _init_weights(self, module: nn.Module) -> None:
        initialize_missing(module, self._initialize)

    def _initialize(self, module: nn.Module) -> None:
        """Projections and embeddings truncated normal, biases 0, norms 1; other modules reset themselves."""
        std = initial_range(self.config)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.trunc_normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding) or getattr(module, "is_projection", False):
            nn.init.trunc_normal_(module.weight, std=std)  # ty: ignore[invalid-argument-type]
        elif isinstance(module, (nn.RMSNorm, nn.LayerNorm)):
            module.reset_parameters()
        else:
            reset_own_parameters(module)


def initialize_missing(module: nn.Module, initialize: Callable[[nn.Module], T]) -> T:
    """Call ``initialize(module)``, but keep those of the module's own parameters that came from a checkpoint."""
    loaded = [p for p in module.parameters(recurse=False) if getattr(p, "_is_hf_initialized", False)]
    values = [p.detach().clone() for p in loaded]
    result = initialize(module)
    with torch.no_grad():
        for parameter, value in zip(loaded, values, strict=True):
            parameter.copy_(value)
    return result


def reset_own_parameters(module: nn.Module) -> bool:
    """Call ``module.reset_own_parameters()``, which leaves submodules alone, if it exists; whether it does.

    Mixers and their parts initialize themselves by this protocol.
    """
    reset = getattr(module, "reset_own_parameters", None)
    if reset is not None:
        reset()
    return reset is not None


def initial_range(config: Any) -> float:
    """Standard deviation of the initial weights: ``initializer_range · √(768 / hidden_size)``.

    The usual 0.02 suits 768 features. With 48 features queries, keys and values would be so small that little is
    learned for hundreds of steps. The paper has 0.02 at any width.
    """
    if config.init == "paper":
        return config.initializer_range
    return config.initializer_range * sqrt(768 / config.hidden_size)


def build_blocks(config: Any, block: type[Block], **options: Any) -> nn.ModuleList:
    """The blocks of an image or text model; drop-path rates rise linearly from 0, other ``options`` are of `Block`."""
    last = max(1, config.num_hidden_layers - 1)
    return nn.ModuleList(
        block(config.hidden_size, build_mixer(config.kind, config), config.drop_path * depth / last, **options)
        for depth in range(config.num_hidden_layers)
    )


def chimera_mixer(config: Any, kind: Kind, num_heads: int | None, **options: Any) -> Chimera:
    """The mixer of an image or text model, with further ``options`` of `Chimera`."""
    return Chimera(
        config.hidden_size,
        num_heads,
        config.state_size,
        config.expand,
        config.groups,
        kind=kind,
        conv=config.conv,
        resolvent=config.resolvent,
        init=config.init,
        **options,
    )


def _check_layers(missing: Iterable[str], unexpected: Iterable[str]) -> None:
    """Raise a ValueError if the layers of a checkpoint differ from the model's; heads may differ."""
    ours, theirs = (sorted(name for name in names if ".layers." in name) for names in (missing, unexpected))
    if ours and theirs:
        raise ValueError(
            f"these weights do not fit the model: {len(theirs)} weights of its layers are unknown (the first is "
            f"{theirs[0]}) and {len(ours)} are missing (the first is {ours[0]}); they were saved by another version of "
            "chimera-ssm, whose layers were arranged differently: train the model again, or install that version"
        )
