"""The gated norms of Mamba-2 layers of ``transformers``, in one pass over memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from chimera_ssm.nn.norm import gated_rms_norm

#: What the norms of the six families have besides weights; a norm with other attributes may compute something else.
_ATTRIBUTES = {"variance_epsilon", "group_size", "n_groups", "norm_before_gate"}


def is_gated_norm(module: Any) -> bool:
    """Whether a module is a norm of ``x · silu(gate)`` over all features at once."""
    if not type(module).__name__.endswith("RMSNormGated") or not isinstance(module, nn.Module):
        return False
    own = {name: value for name, value in vars(module).items() if name not in _MODULE and name != "forward"}
    whole = own.get("group_size", module.weight.numel()) == module.weight.numel() and own.get("n_groups", 1) == 1
    return own.keys() <= _ATTRIBUTES and whole and not own.get("norm_before_gate", False)


def fused_norm(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A ``forward`` for such a norm; half precision and other devices are left to the original."""

    def forward(self: Any, hidden_states: Tensor, gate: Tensor | None = None) -> Tensor:
        if hidden_states.device.type != "cpu" or {hidden_states.dtype, self.weight.dtype} != {torch.float32}:
            return original(self, hidden_states, gate)
        gate = None if gate is None else gate.float()
        return gated_rms_norm(hidden_states, gate, self.weight, self.variance_epsilon)

    return forward


_MODULE = vars(nn.Module()).keys() | {"_is_hf_initialized", "_hf_hook", "_old_forward"}
