"""How much the resolvent contributes to each mixer of a model, beside the skip connection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from chimera_ssm.nn.hooks import run_with_hooks
from chimera_ssm.nn.norm import HeadNorm


@torch.no_grad()
def resolvent_share(model: nn.Module, *args: Any, **kwargs: Any) -> list[float]:
    """Run ``model(*args, **kwargs)`` and compare, in each mixer, the mixed term with the skip connection.

        share = rms((L ⊙ C B̄ᵀ) V) / rms(D V)

    Near 0 the layer ignores the topology but for its convolution; when training starts it should be between 0.3 and 3.

    Args:
        model: anything with `Chimera` mixers in it.
        args: of the model.
        kwargs: of the model.

    Returns:
        A number for each mixer, in the order in which they run.
    """
    shares: list[float] = []

    def measure(norm: nn.Module, args: tuple[Any, ...], _: dict[str, Any]) -> None:
        assert isinstance(norm, HeadNorm)
        mixed, V = args[:2]
        shares.append((_rms(mixed) / _rms(norm.D[:, None, None] * V)).item())

    run_with_hooks(model, HeadNorm, measure, args, kwargs)
    return shares


def _rms(x: Tensor) -> Tensor:
    return x.double().square().mean().sqrt()
