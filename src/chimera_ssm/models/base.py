"""What all models for `transformers` have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from chimera_ssm.nn import M2, S4, Chimera, Hyena, mark_undecayed
from chimera_ssm.nn.conv import LocalConv
from chimera_ssm.nn.hyena import HyenaFilter
from chimera_ssm.nn.mlp_mixer import BlockDiagonal


class ChimeraPreTrainedModel(PreTrainedModel):
    """Initial weights, and marks for the optimiser, also after loading."""

    base_model_prefix = "chimera"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means over a batch: transformers' Trainer divides them when it accumulates

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As in `PreTrainedModel`."""
        found = super().from_pretrained(*args, **kwargs)
        mark_undecayed(found[0] if isinstance(found, tuple) else found)  # a tuple with output_loading_info
        return found

    def _init_weights(self, module: nn.Module) -> None:
        """Draw the parameters that a module holds itself, except those that came from a checkpoint."""
        loaded = [p for p in module.parameters(recurse=False) if getattr(p, "_is_hf_initialized", False)]
        values = [p.detach().clone() for p in loaded]
        self._draw(module)
        with torch.no_grad():
            for parameter, value in zip(loaded, values, strict=True):
                parameter.copy_(value)

    def _draw(self, module: nn.Module) -> None:
        """Projections and embeddings truncated normal, biases 0, norms 1; mixers and their parts know their own."""
        std = self.config.initializer_range
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.trunc_normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Embedding, BlockDiagonal)):
            nn.init.trunc_normal_(module.weight, std=std)
        elif isinstance(module, (nn.RMSNorm, nn.LayerNorm, LocalConv, HyenaFilter)):
            module.reset_parameters()
        elif isinstance(module, (Chimera, S4, Hyena, M2)):
            module.reset_own_parameters()
