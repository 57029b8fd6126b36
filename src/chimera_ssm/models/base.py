"""What all models for `transformers` have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedModel

from chimera_ssm.models.width import initial_range
from chimera_ssm.nn import M2, S4, Chimera, Hyena, mark_undecayed
from chimera_ssm.nn.conv import LocalConv
from chimera_ssm.nn.hyena import HyenaFilter
from chimera_ssm.nn.mlp_mixer import BlockDiagonal
from chimera_ssm.nn.norm import HeadNorm

T = TypeVar("T")


class ChimeraPreTrainedModel(PreTrainedModel):
    """Initial weights, and marks for the optimiser, also after loading."""

    base_model_prefix = "chimera"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means over a batch: transformers' Trainer divides them when it accumulates

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As in `PreTrainedModel`."""
        load: Any = super().from_pretrained
        model, info = load(*args, output_loading_info=True, **kwargs)
        if any(name.endswith(".mixer.D") for name in info["unexpected_keys"]):
            # Saved before D became a parameter of the mixer's norm, and before there was any injection but the step.
            kwargs = {"injection": "step", **kwargs}
            renamed = {".mixer.D": ".mixer.norm.D", **kwargs.pop("key_mapping", {})}
            model, info = load(*args, output_loading_info=True, key_mapping=renamed, **kwargs)
        _check_layers(info["missing_keys"], info["unexpected_keys"])
        mark_undecayed(model)
        return (model, info) if output_loading_info else model

    def _init_weights(self, module: nn.Module) -> None:
        draw_missing(module, self._draw)

    def _draw(self, module: nn.Module) -> None:
        """Projections and embeddings truncated normal, biases 0, norms 1; mixers and their parts know their own."""
        std = initial_range(self.config)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.trunc_normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Embedding, BlockDiagonal)):
            nn.init.trunc_normal_(module.weight, std=std)
        elif isinstance(module, (nn.RMSNorm, nn.LayerNorm)):
            module.reset_parameters()
        else:
            draw_mixer(module)


def draw_missing(module: nn.Module, draw: Callable[[nn.Module], T]) -> T:
    """Draw the parameters that a module holds itself, except those that came from a checkpoint; what ``draw`` says."""
    loaded = [p for p in module.parameters(recurse=False) if getattr(p, "_is_hf_initialized", False)]
    values = [p.detach().clone() for p in loaded]
    said = draw(module)
    with torch.no_grad():
        for parameter, value in zip(loaded, values, strict=True):
            parameter.copy_(value)
    return said


def draw_mixer(module: nn.Module) -> bool:
    """Draw the parameters of a mixer, or of a part of one, that know how themselves; whether it is one."""
    if isinstance(module, (HeadNorm, LocalConv, HyenaFilter)):
        module.reset_parameters()
    elif isinstance(module, (Chimera, S4, Hyena, M2)):
        module.reset_own_parameters()
    else:
        return False
    return True


def _check_layers(missing: Iterable[str], unexpected: Iterable[str]) -> None:
    """Refuse weights of layers that are arranged in another way; heads may differ, and parameters may be left out."""
    ours, theirs = (sorted(name for name in names if ".layers." in name) for names in (missing, unexpected))
    if ours and theirs:
        raise ValueError(
            f"these weights do not fit the model: {len(theirs)} weights of its layers are unknown (the first is "
            f"{theirs[0]}) and {len(ours)} are missing (the first is {ours[0]}); they were saved by another version of "
            "chimera-ssm, whose layers were arranged differently: train the model again, or install that version"
        )
