"""Inspection of trained models: the influence of nodes on each other, and the share of the resolvent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from chimera_ssm.nn.mixer import Chimera
from chimera_ssm.nn.norm import HeadNorm


@torch.no_grad()
def influence(model: nn.Module, node: int | Sequence[int], *args: Any, **kwargs: Any) -> list[Tensor]:
    """Run ``model(*args, **kwargs)`` and return the influence of every node on ``node`` in each mixer.

    Args:
        model: any module that contains `Chimera` mixers.
        node: index of the influenced node, the same in every sample; or several indices.
        args: of the model.
        kwargs: of the model.

    Returns:
        For each mixer, in the order in which they run, ``Σ_d L_d[node, :]``, ``[..., H, T]``; ``[..., H, K, T]`` for
        K nodes.
    """
    rows: list[Tensor] = []

    def collect(mixer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(mixer, Chimera)
        inputs = {name: value for name, value in kwargs.items() if name not in ("state", "return_state")}
        rows.append(mixer.influence(node, *args[:4], **inputs))  # among the nodes of the call, without states

    _run_with_hooks(model, Chimera, collect, args, kwargs)
    return rows


@torch.no_grad()
def resolvent_share(model: nn.Module, *args: Any, **kwargs: Any) -> list[float]:
    """Run ``model(*args, **kwargs)`` and compare, in each mixer, the mixed term with the skip connection.

        share = rms((L ⊙ C B̄ᵀ) V) / rms(D V)

    Near 0 the layer uses the topology only in its convolution. At the start of training the share should be between
    0.3 and 3.

    Args:
        model: any module that contains `Chimera` mixers.
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

    _run_with_hooks(model, HeadNorm, measure, args, kwargs)
    return shares


def _rms(x: Tensor) -> Tensor:
    return x.double().square().mean().sqrt()


def _run_with_hooks(
    model: nn.Module, kind: type[nn.Module], hook: Callable[..., None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Run ``model(*args, **kwargs)`` and call ``hook(module, args, kwargs)`` before each module of a type.

    Raises:
        ValueError: the model has no such module, and therefore no resolvent.
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
