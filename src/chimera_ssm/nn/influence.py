"""What a node hears from all others: rows of the resolvents of a model's mixers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from chimera_ssm.nn.hooks import run_with_hooks
from chimera_ssm.nn.mixer import Chimera


@torch.no_grad()
def influence(model: nn.Module, node: int | Sequence[int], *args: Any, **kwargs: Any) -> list[Tensor]:
    """Run ``model(*args, **kwargs)`` and tell how much ``node`` hears from each node in each of its mixers.

    Args:
        model: anything with `Chimera` mixers in it.
        node: the number of the node that hears, the same in every sample; or the numbers of several.
        args: of the model.
        kwargs: of the model.

    Returns:
        For each mixer, in the order in which they run, ``Σ_d L_d[node, :]``, ``[..., H, T]``; of several nodes
        ``[..., H, K, T]``.
    """
    rows: list[Tensor] = []

    def hear(mixer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(mixer, Chimera)
        rows.append(mixer.heard_by(node, *args, **kwargs))

    run_with_hooks(model, Chimera, hear, args, kwargs)
    return rows
