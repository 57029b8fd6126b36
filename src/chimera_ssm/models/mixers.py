"""The registry of mixers: what ``config.mixer`` selects in the models for images, texts and graphs.

An entry maps (kind of model, name) to a function of the configuration. For images and texts it builds the mixer of a
block, for graphs a whole layer, called as ``layer(x, edge, structure)``. The models register ``"chimera"``;
`chimera_lab.baselines` registers the baselines when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

_BUILDERS: dict[tuple[str, str], Callable[[Any], nn.Module]] = {}


def register_mixer(kind: str, name: str, build: Callable[[Any], nn.Module]) -> None:
    """Make ``config.mixer = name`` available in models of a kind.

    Args:
        kind: ``"image"``, ``"text"`` or ``"graph"``.
        name: value of ``config.mixer``.
        build: function of the configuration.
    """
    _BUILDERS[kind, name] = build


def known_mixers(kind: str) -> tuple[str, ...]:
    """Names of the mixers that are registered for a kind of model."""
    return tuple(name for other, name in _BUILDERS if other == kind)


def check_mixer(kind: str, name: str) -> None:
    """Raise a ValueError unless a mixer of this name is registered."""
    if (kind, name) not in _BUILDERS:
        known = known_mixers(kind)
        hint = "" if len(known) > 1 else "; for a baseline, import chimera_lab.baselines first"
        raise ValueError(f"mixer must be one of {', '.join(known)}; found {name!r}{hint}")


def build_mixer(kind: str, config: Any) -> nn.Module:
    """The mixer that a configuration selects."""
    check_mixer(kind, config.mixer)
    return _BUILDERS[kind, config.mixer](config)
